"""The README's moving picture: recorded runs as an SVG that plays in any browser, light or dark, without a script.

``python -m scripts.docs.record --lab NAME`` records and draws; ``python -m scripts.docs.picture`` draws again from the
recording. Who asked the system for less motion gets the GPU map alone.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from rich.style import Style
from rich.text import Text

from scripts.docs.recording import ROOT, Recorded, recorded

PICTURE = ROOT / "docs" / "assets" / "first-minutes.svg"

SCENES = ("kailab up", "kailab gpus", "kailab explain", "kailab e2e")
"""The runs that the picture shows, in this order: the first recorded one of each command."""
STILL = 1
"""The scene for those who want no motion."""
COLUMNS, ROWS = 96, 24
CHAR, LINE = 8.4, 19
"""Pixels of a character and of a line."""
READ = 4.5
"""Seconds for which a whole scene stays."""
TYPED, REVEALED = 0.8, 3.0
"""Seconds until the first line of output, and until the last one."""

_COLOURS = {1: "fail", 2: "ok", 3: "warn", 4: "next", 5: "next", 6: "next"}
"""The terminal's colours, also the bright ones, 8 higher."""

STYLE = """\
:root { --bg: #ffffff; --bar: #eef1f4; --ink: #1f2328; --dim: #59636e; --ok: #116329; --warn: #7d4e00; --fail: #b3151f;
  --next: #0a5a8a; --edge: #d1d9e0; }
@media (prefers-color-scheme: dark) { :root { --bg: #0d1117; --bar: #161b22; --ink: #e6edf3; --dim: #9198a1;
  --ok: #56d364; --warn: #e3b341; --fail: #ff7b72; --next: #79c0ff; --edge: #3d444d; } }
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: var(--ink);
  white-space: pre; }
.bg { fill: var(--bg); stroke: var(--edge); } .bar { fill: var(--bar); } .dim { fill: var(--dim); }
.ok { fill: var(--ok); }
.warn { fill: var(--warn); } .fail { fill: var(--fail); } .next { fill: var(--next); } .b { font-weight: bold; }
.scene, .line { opacity: 0; animation-iteration-count: infinite; animation-timing-function: step-end; }
"""
CALM = """\
@media (prefers-reduced-motion: reduce) {{ .scene, .line {{ animation: none !important; }}
  .line, #s{still} {{ opacity: 1; }} }}
"""


@dataclass(frozen=True)
class Scene:
    """One command: its lines, when each appears, and when the scene begins and ends, in seconds."""

    run: Recorded
    begins: float

    @property
    def rows(self) -> tuple[str, ...]:
        """The output, shortened in the middle to what fits below the command."""
        lines = [line for _, line in self.run.lines]
        while lines and not Text.from_ansi(lines[0]).plain.strip():
            lines.pop(0)
        room = ROWS - 2
        if len(lines) > room:
            head = room // 3
            lines = [*lines[:head], f"… {len(lines) - room + 1} lines", *lines[-(room - head - 1) :]]
        return tuple(lines)

    @property
    def ends(self) -> float:
        return self.begins + REVEALED + READ

    def appears(self, number: int) -> float:
        """When a line of output appears: evenly, since a run of a minute has to pass in seconds."""
        return self.begins + TYPED + (REVEALED - TYPED) * number / max(len(self.rows), 1)


def draw(runs: Sequence[Recorded]) -> str:
    """Return the SVG. Raises ValueError if a scene was not recorded."""
    scenes: list[Scene] = []
    for words in SCENES:
        found = next((one for one in runs if one.of(words) and "--explain" not in one.command), None)
        if found is None:
            raise ValueError(f"no recorded run of {words}: python -m scripts.docs.record --lab NAME")
        scenes.append(Scene(found, scenes[-1].ends if scenes else 0.0))
    total = scenes[-1].ends
    width, height = round(COLUMNS * CHAR) + 40, ROWS * LINE + 62
    body = "\n".join(part for number, scene in enumerate(scenes) for part in _scene(number, scene))
    style = STYLE + "".join(_animations(scenes, total)) + CALM.format(still=STILL)
    spoken = "; ".join(scene.run.command for scene in scenes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-labelledby="t d">\n<title id="t">kailab in a terminal</title>\n'
        f'<desc id="d">Recorded runs, one after the other: {escape(spoken)}</desc>\n<style>\n{style}</style>\n'
        f'<rect class="bg" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>\n'
        f'<path class="bar" d="M1 34 V11 a10 10 0 0 1 10 -10 H{width - 11} a10 10 0 0 1 10 10 V34 Z"/>\n'
        f"{body}\n</svg>\n"
    )


def _scene(number: int, scene: Scene) -> Iterator[str]:
    yield f'<g class="scene" id="s{number}">'
    took = f"{scene.run.where}, {scene.run.seconds:.0f} s" if scene.run.seconds >= 1 else scene.run.where
    yield f'<text class="dim" x="20" y="23">{escape(took)}</text>'
    command = escape(scene.run.command)
    yield f'<text x="20" y="62"><tspan class="ok b">$</tspan> <tspan class="b">{command}</tspan></text>'
    for at, line in enumerate(scene.rows):
        y = 62 + (at + 1) * LINE
        yield f'<g class="line" id="s{number}l{at}"><text x="20" y="{y}">{_spans(line)}</text></g>'
    yield "</g>"


def _spans(line: str) -> str:
    """A line as spans of one style each; columns are kept by the place of each span."""
    text = Text.from_ansi(line)
    text.truncate(COLUMNS, overflow="ellipsis")
    parts: list[str] = []
    cuts = sorted({0, len(text.plain), *(edge for span in text.spans for edge in (span.start, span.end))})
    for start, end in itertools.pairwise(cuts):
        given = [one.style for one in text.spans if one.start <= start < one.end and isinstance(one.style, Style)]
        style = Style.combine([Style.null(), *given])
        word = text.plain[start:end]
        if word.strip():
            where = f'x="{20 + start * CHAR:g}" textLength="{(end - start) * CHAR:g}" lengthAdjust="spacingAndGlyphs"'
            names = _classes(style)
            parts.append(f"<tspan {where}{f' class={chr(34)}{names}{chr(34)}' if names else ''}>{escape(word)}</tspan>")
    return "".join(parts)


def _classes(style: Style) -> str:
    number = style.color.number if style.color and style.color.number is not None else 0
    names = [_COLOURS.get(number % 8, ""), "b" if style.bold else "", "dim" if style.dim else ""]
    return " ".join(name for name in names if name)


def _animations(scenes: Sequence[Scene], total: float) -> Iterator[str]:
    def percent(seconds: float) -> str:
        return f"{100 * seconds / total:.2f}%"

    for number, scene in enumerate(scenes):
        hidden = "0% { opacity: 0; } " if scene.begins else ""
        yield (
            f"@keyframes k{number} {{ {hidden}{percent(scene.begins)} {{ opacity: 1; }}"
            f" {percent(scene.ends)} {{ opacity: {1 if scene is scenes[-1] else 0}; }} }}\n"
            f"#s{number} {{ animation: k{number} {total:g}s infinite step-end; }}\n"
        )
        for at in range(len(scene.rows)):
            name = f"k{number}l{at}"
            yield (
                f"@keyframes {name} {{ 0% {{ opacity: 0; }} {percent(scene.appears(at))} {{ opacity: 1; }} }}"
                f" #s{number}l{at} {{ animation: {name} {total:g}s infinite step-end; }}\n"
            )


def main() -> int:
    """Draw the picture from the recording."""
    PICTURE.write_text(draw(recorded()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
