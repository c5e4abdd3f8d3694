"""A GPU in a terminal: the bar of its pods, and one cell in a strip.

Colours are never needed to read it: states have a sign and a word, pods have letters.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from lab.gpu.map.legend import SIGNS, letter
from lab.gpu.map.model import Gpu, GpuState
from lab.ui.terminal import Terminal

STYLES = {
    GpuState.FREE: "green",
    GpuState.SHARED: "cyan",
    GpuState.WHOLE: "blue",
    GpuState.OVER: "bold red",
    GpuState.UNHEALTHY: "bold yellow",
}
_PODS = ("black on cyan", "black on green", "black on magenta", "black on yellow", "white on blue")
_LEVELS = ("▁▂▃▄▅▆▇█", "12345678")


def sign(state: GpuState, terminal: Terminal) -> str:
    """The sign of a state."""
    return SIGNS[state][0 if terminal.unicode else 1]


def style_of(number: int) -> str:
    """Style of a GPU's n-th pod."""
    return f"bold {_PODS[number % len(_PODS)]}"


def bar(gpu: Gpu, width: int, terminal: Terminal) -> Text:
    """A GPU in ``width`` cells: each pod's letter over its share, then dots."""
    shares = [holder.share or 0.0 for holder in gpu.holders]
    text = Text()
    for number, cells in enumerate(segments(shares, width)):
        text.append(letter(number) * cells, style_of(number))
    unhealthy = gpu.state is GpuState.UNHEALTHY
    rest = "!" if unhealthy else terminal.dot if terminal.unicode else "."
    return text.append(rest * (width - text.cell_len), STYLES[gpu.state] if unhealthy else "dim")


def segments(shares: Sequence[float], width: int) -> list[int]:
    """Number of the ``width`` cells for each share: in proportion, at least 1 while there are enough.

    Shares of more than 1 in total fill the whole width.
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


def levels(terminal: Terminal) -> str:
    """Signs of a strip's cells, from nearly empty to full."""
    return _LEVELS[0 if terminal.unicode else 1]


def cell(gpu: Gpu, terminal: Terminal) -> Text:
    """A GPU in one character: its level if it is shared, else the sign of its state."""
    if gpu.state is GpuState.SHARED:
        return Text(levels(terminal)[min(7, max(0, round(gpu.used * 8) - 1))], STYLES[gpu.state])
    full = gpu.state is GpuState.WHOLE and terminal.unicode
    return Text("█" if full else sign(gpu.state, terminal), STYLES[gpu.state])
