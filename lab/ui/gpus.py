"""The GPU map on a terminal: a summary, a strip of all GPUs if there are many, and a block per node.

A block shows each GPU with a bar of its pods, its reservation pod, and its pods. Imports rich; import this module late.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from lab.gpu.map.legend import MANY, STRIP, letter, total
from lab.gpu.map.model import Gpu, GpuMap, GpuState, Holder, NodeGpus, short
from lab.gpu.map.text import gpu_lines, node_words, state_text
from lab.text import count
from lab.ui.gpu_bar import STYLES, bar, cell, levels, sign, style_of
from lab.ui.terminal import Terminal
from lab.ui.text_writer import fit

WIDE = 120
"""Width from which UUIDs are complete and reservation pods are on the line of their GPU."""

_WAITING = 8
"""Waiting pods that are listed."""


def render_gpus(gpus: GpuMap, title: str, console: Console | None = None, width: int | None = None) -> None:
    """Draw the table on a terminal or with a given width; write plain lines elsewhere."""
    console = console or Console(highlight=False, emoji=False, markup=False)
    terminal = Terminal(console.encoding)
    if width is None and not console.is_terminal:
        lines = [Text(terminal.clean(line)) for line in gpu_lines(gpus)]
    else:
        lines = list(GpuTable(gpus, title, terminal).lines(width or console.width))
    for line in lines:
        console.print(line, soft_wrap=True)


@dataclass(frozen=True)
class GpuTable:
    """Draws a map; ``height`` limits the lines of a live display, ``below`` are lines that stay under it."""

    gpus: GpuMap
    title: str
    terminal: Terminal
    height: int | None = None
    below: tuple[Text, ...] = field(default=())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(options.max_width)

    def lines(self, width: int) -> Iterator[Text]:
        """The lines, cut to ``width`` cells."""
        head = [*self._summary(), *self._strip(width)]
        body = list(self._blocks(width, [holder for holder, _ in self.gpus.holders]))
        tail = [*self._waiting(), *self._notes(), *self.below]
        room = None if self.height is None else max(1, self.height - len(head) - len(tail))
        if room is not None and len(body) > room:
            more = f" {self.terminal.ellipsis} and {len(body) - room + 1} more lines: enlarge the window to see them"
            body = [*body[: room - 1], Text(more, "dim")]
        for line in [*head, *body, *tail]:
            yield _cut(line, width, self.terminal)

    def _summary(self) -> Iterator[Text]:
        gpus, terminal = self.gpus, self.terminal
        found = total(gpus) if gpus.nodes else f"no GPUs on {count(gpus.others, 'node')}"
        yield Text(f" GPUs of {self.title}: {found}", "bold").append(f"  {gpus.at[11:19]} UTC", "dim")
        if gpus.nodes:
            line = Text()
            for state in GpuState:
                number = gpus.count(state)
                text = f"{sign(state, terminal)} {number} {state.value}"
                line.append(" " if state is GpuState.FREE else "  ").append(text, STYLES[state] if number else "dim")
            yield line
        waiting = f"{count(len(gpus.waiting), 'pod')} waiting for GPUs"
        free = f"largest free share {gpus.largest_free:g} {terminal.dot} " if gpus.nodes else ""
        yield Text(f" {free}").append(waiting, "yellow" if gpus.waiting else "dim")

    def _strip(self, width: int) -> Iterator[Text]:
        """One character per GPU, one line per node."""
        if len(self.gpus.gpus) <= STRIP:
            return
        yield Text()
        name_width = min(max(len(node.name) for node in self.gpus.nodes), width // 2)
        for node in self.gpus.nodes:
            line = Text(" ").append_text(fit(node.name, name_width, self.terminal)).append("  ")
            for gpu in node.gpus:
                line.append_text(cell(gpu, self.terminal)).append(" ")
            free = sum(gpu.state is GpuState.FREE for gpu in node.gpus)
            yield line.append(f" {free} free", "" if free else "dim")
        scale = levels(self.terminal)
        yield Text(f" {' ' * name_width}  one sign per GPU: {scale[0]} to {scale[-1]} show the used share", "dim")

    def _blocks(self, width: int, holders: list[Holder]) -> Iterator[Text]:
        columns = _Columns.of(holders, width, self.terminal)
        for number, node in enumerate(self.gpus.nodes):
            yield Text()
            healthy = node.ready and not node.cordoned
            text = Text(" ").append(node.name, "bold" if healthy else "bold red")
            about = f" {self.terminal.dot} ".join(node_words(node))
            yield text.append(f"  {about}", "dim" if healthy else "red")
            if number == 0 and holders:
                yield columns.headings()
            yield from self._gpus(node, width, columns)
            for holder in node.unplaced:
                yield columns.row("?", "dim", holder)

    def _gpus(self, node: NodeGpus, width: int, columns: _Columns) -> Iterator[Text]:
        for same in self._runs(node.gpus):
            if same[0].state is GpuState.FREE and len(same) > 1:
                yield self._free(same)
                continue
            for gpu in same:
                yield from self._gpu(gpu, width)
            for number, holder in enumerate(same[0].holders):
                yield columns.row(letter(number), style_of(number), holder)

    def _runs(self, gpus: tuple[Gpu, ...]) -> Iterator[tuple[Gpu, ...]]:
        """Adjacent GPUs of the same pods; of many GPUs, also adjacent free ones."""
        many = len(self.gpus.gpus) > MANY

        def kind(pair: tuple[int, Gpu]) -> object:
            number, gpu = pair
            idle = gpu.state is GpuState.FREE and not gpu.trouble
            return "free" if many and idle else tuple(h.uid for h in gpu.holders) or number

        for _, run in itertools.groupby(enumerate(gpus), kind):
            yield tuple(gpu for _, gpu in run)

    def _free(self, row: tuple[Gpu, ...]) -> Text:
        known = row[0].index is not None
        numbers = f"{row[0].index} to {row[-1].index}" if known else f"{len(row)} GPUs"
        text = Text(f"   {numbers:<14}")
        return text.append(f"{sign(GpuState.FREE, self.terminal)} {len(row)} free", STYLES[GpuState.FREE])

    def _gpu(self, gpu: Gpu, width: int) -> Iterator[Text]:
        wide = width >= WIDE
        name = (gpu.uuid if wide else short(gpu.uuid)) or "UUID unknown"
        number = "?" if gpu.index is None else str(gpu.index)
        line = Text(f"  {number:>2} {name:<{40 if wide else 12}} ")
        line.append("[", "dim").append_text(bar(gpu, 20 if wide else 12, self.terminal)).append("] ", "dim")
        line.append(f"{sign(gpu.state, self.terminal)} {state_text(gpu)}", STYLES[gpu.state])
        by = f"reserved by {', '.join(gpu.reserved_by)}"
        if gpu.reservations and wide:
            line.append(f"  {by}", "dim")
        yield line
        if gpu.reservations and not wide:
            yield Text(f"      {by}", "dim")

    def _waiting(self) -> Iterator[Text]:
        waiting = self.gpus.waiting
        if not waiting:
            return
        yield Text()
        yield Text(" Waiting for GPUs", "bold")
        for pod in waiting[:_WAITING]:
            line = Text("   ").append(pod.title, "yellow").append(f"  {pod.asked}")
            line.append(f"  {pod.tenant or 'host'}" + (f"  queue {pod.queue}" if pod.queue else ""), "dim")
            yield line.append(f"  {self.terminal.clean(pod.why)}" if pod.why else "", "dim")
        if len(waiting) > _WAITING:
            yield Text(f"   {self.terminal.ellipsis} and {len(waiting) - _WAITING} more", "dim")

    def _notes(self) -> Iterator[Text]:
        for note in self.gpus.notes:
            yield Text(f" {self.terminal.glyph('warn')} ", "bold yellow").append(self.terminal.clean(note), "yellow")


@dataclass(frozen=True)
class _Columns:
    """Widths of the columns of pods, the same for all GPUs."""

    terminal: Terminal
    widths: tuple[int, int, int, int, int]

    @classmethod
    def of(cls, holders: list[Holder], width: int, terminal: Terminal) -> _Columns:
        """Wide enough for all pods; if the terminal is too narrow, names are shortened first."""

        def longest(texts: Iterable[str], least: int, most: int) -> int:
            return min(most, max([least, *map(len, texts)]))

        asked = longest((h.asked for h in holders), 4, 16)
        tenant = longest((h.tenant or "host" for h in holders), 6, 20)
        queue = longest((h.queue for h in holders), 5, 16)
        phase = longest((h.phase for h in holders), 7, 20)
        title = longest((h.title for h in holders), 8, 60)
        left = width - 8 - asked - tenant - queue - phase - 8
        return cls(terminal, (asked, max(12, min(title, left)), tenant, queue, phase))

    def headings(self) -> Text:
        return self._line("", "", ["asks", "pod", "tenant", "queue", "phase"], "dim")

    def row(self, mark: str, style: str, holder: Holder) -> Text:
        """A pod behind its letter."""
        cells = [holder.asked, holder.title, holder.tenant or "host", holder.queue, holder.phase]
        calm = holder.phase in ("Running", "Succeeded")
        return self._line(mark, style, cells, "", "" if calm else "yellow")

    def _line(self, mark: str, mark_style: str, cells: list[str], style: str, last: str = "") -> Text:
        line = Text("      ").append(mark or " ", mark_style or None).append("  ")
        for text, width in zip(cells, self.widths, strict=True):
            line.append_text(fit(text, width, self.terminal, style)).append("  ")
        if last:
            line.stylize(last, line.cell_len - self.widths[-1] - 2)
        line.rstrip()
        return line


def _cut(line: Text, width: int, terminal: Terminal) -> Text:
    line.no_wrap, line.overflow = True, "crop"
    if line.cell_len > width:
        line.truncate(max(0, width - len(terminal.ellipsis)))
        line.append(terminal.ellipsis, "dim")
    return line
