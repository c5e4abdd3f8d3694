"""How a GPU is drawn in a terminal: signs and colours of its states, the bar of its pods, one cell in a strip.

Everything reads without colour too: states have a sign and a word, pods in a bar have letters.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

from rich.text import Text

from lab.gpu.map.model import Gpu, GpuState
from lab.ui.terminal import Terminal

STYLES = {
    GpuState.FREE: "green",
    GpuState.SHARED: "cyan",
    GpuState.WHOLE: "blue",
    GpuState.OVER: "bold red",
    GpuState.UNHEALTHY: "bold yellow",
}
_SIGNS = {
    GpuState.FREE: ("○", "."),
    GpuState.SHARED: ("◐", "%"),
    GpuState.WHOLE: ("●", "#"),
    GpuState.OVER: ("✗", "X"),
    GpuState.UNHEALTHY: ("!", "!"),
}
_SEGMENTS = tuple(
    f"bold {colours}"
    for colours in ("black on cyan", "black on green", "black on magenta", "black on yellow", "white on blue")
)
_LEVELS = ("▁▂▃▄▅▆▇█", "12345678")
LETTERS = string.ascii_lowercase


def sign(state: GpuState, words: Terminal) -> str:
    """The sign of a state."""
    return _SIGNS[state][0 if words.rich else 1]


def letter(number: int) -> str:
    """What the pod of this number is called on its GPU; after z there are only plus signs."""
    return LETTERS[number] if number < len(LETTERS) else "+"


def style_of(number: int) -> str:
    """The colours of the pod of this number on its GPU."""
    return _SEGMENTS[number % len(_SEGMENTS)]


def bar(gpu: Gpu, width: int, words: Terminal) -> Text:
    """The whole GPU in ``width`` cells: each pod its letter over its share, the rest dots."""
    shares = [holder.share or 0.0 for holder in gpu.holders]
    text = Text()
    for number, cells in enumerate(segments(shares, width)):
        text.append(letter(number) * cells, style_of(number))
    rest = "!" if gpu.state is GpuState.UNHEALTHY else words.dot if words.rich else "."
    style = STYLES[gpu.state] if gpu.state is GpuState.UNHEALTHY else "dim"
    return text.append(rest * (width - text.cell_len), style)


def segments(shares: Sequence[float], width: int) -> list[int]:
    """How many of ``width`` cells each share gets: in proportion, one at least while there are enough.

    Shares of more than 1 together are drawn over the whole width.
    """
    total = max(1.0, sum(shares))
    ends = [round(sum(shares[: n + 1]) / total * width) for n in range(len(shares))]
    cells = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    for n, count in enumerate(cells):
        if count == 0:
            donor = max(range(len(cells)), key=cells.__getitem__)
            spare = width - sum(cells)
            if spare > 0 or cells[donor] > 1:
                cells[n] = 1
                cells[donor] -= 0 if spare > 0 else 1
    return cells


def full_scale(words: Terminal) -> str:
    """The signs of a strip from nearly empty to full, as a legend."""
    levels = _LEVELS[0 if words.rich else 1]
    return f"{levels[0]} to {levels[-1]}"


def cell(gpu: Gpu, words: Terminal) -> Text:
    """One GPU in one character: how full it is, or the sign of what it is."""
    if gpu.state is GpuState.SHARED:
        levels = _LEVELS[0 if words.rich else 1]
        return Text(levels[min(7, max(0, round(gpu.used * 8) - 1))], STYLES[gpu.state])
    if gpu.state is GpuState.WHOLE and words.rich:
        return Text("█", STYLES[gpu.state])
    return Text(sign(gpu.state, words), STYLES[gpu.state])
