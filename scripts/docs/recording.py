"""Recorded runs of commands: ``docs/assets/recording.json``, which pages and the picture of the README show.

``python -m scripts.docs.record`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.text import without_colours

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "assets" / "recording.json"


@dataclass(frozen=True)
class Recorded:
    """One run of a command; ``lines`` are pairs of seconds since its start and a line with its colours."""

    command: str
    where: str
    """The machine and the versions, such as "KAI 0.16.8, 2 cores"."""
    seconds: float
    code: int
    lines: tuple[tuple[float, str], ...]

    @property
    def text(self) -> str:
        """The output without colours."""
        return "\n".join(without_colours(line).rstrip() for _, line in self.lines)

    def of(self, words: str) -> bool:
        """Whether this is a run of the command ``words``, such as ``kailab gpu fail``."""
        return self.command == words or self.command.startswith(f"{words} ")


def recorded(file: Path = FILE) -> tuple[Recorded, ...]:
    """Return the recorded runs; none if nothing was recorded yet."""
    rows = json.loads(file.read_text(encoding="utf-8")) if file.exists() else ()
    return tuple(Recorded(**{**row, "lines": tuple(_split(line) for line in row["lines"])}) for row in rows)


def _split(line: str) -> tuple[float, str]:
    at, _, text = line.partition(" ")
    return float(at), text


def save(runs: Iterable[Recorded], file: Path = FILE) -> None:
    """Write runs; a line of output is one line of the file, with its time."""
    rows = [{**asdict(one), "lines": [f"{at:.2f} {line}" for at, line in one.lines]} for one in runs]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
