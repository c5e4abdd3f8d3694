"""``kailab gpus --watch``: a live table on a terminal, elsewhere one line per change."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lab.gpu.map.diff import GpuChange, changes
from lab.gpu.map.model import GpuMap, GpuSummary
from lab.gpu.map.text import summary_line
from lab.gpu.map.watch import GpuFollow
from lab.serialization import document
from lab.ui.gpus import GpuTable
from lab.ui.terminal import Terminal

LAST = 5
"""Changes listed under the live table."""

LOOK = 1.0
"""Seconds after which a live display checks the size of its window."""

_STYLES = {"waits": "yellow", "gone": "dim", "gpu": "bold yellow", "runs": "green"}

Now = Callable[[], datetime]


@dataclass(frozen=True)
class GpuWatchStart:
    """The first line: the map when the watch began."""

    at: str
    summary: GpuSummary
    change: str = "start"

    JSON = "at change *summary"


@dataclass(frozen=True)
class GpuWatchLine:
    """A change."""

    at: str
    change: GpuChange

    JSON = "at *change"


def watch_gpus(maps: GpuFollow, title: str, *, as_json: bool = False, console: Console | None = None) -> None:
    """Show the map and its changes until the run is cancelled; with ``as_json`` one JSON object per change.

    Raises ApiFailed if the server refuses to list pods or nodes, and Interrupted.
    """
    if as_json:
        write_changes(maps, sys.stdout, as_json=True)
        return
    console = console or Console(highlight=False, emoji=False, markup=False)
    if console.is_terminal:
        draw_live(maps, title, console)
    else:
        write_changes(maps, console.file)


def write_changes(maps: GpuFollow, stream: IO[str], *, as_json: bool = False, now: Now = datetime.now) -> None:
    """Write a line for the current map, then one per change. Ends only by an exception."""
    terminal = Terminal(getattr(stream, "encoding", None) or "utf-8")
    trouble = ""
    for before, after in _pairs(maps):
        if after is None:
            if maps.trouble and maps.trouble != trouble and not as_json:
                _write(stream, f"{now():%H:%M:%S} watch failed: {terminal.clean(maps.trouble)}")
            trouble = maps.trouble
            continue
        if before is None:
            first = document(GpuWatchStart(after.at, after.summary))
            _write(stream, json.dumps(first) if as_json else f"{now():%H:%M:%S} {summary_line(after)}")
        for change in changes(before or GpuMap(after.at), after):
            line = document(GpuWatchLine(after.at, change))
            _write(stream, json.dumps(line) if as_json else f"{now():%H:%M:%S} {terminal.clean(change.text)}")


def draw_live(maps: GpuFollow, title: str, console: Console, now: Now = datetime.now) -> None:
    """Redraw the table at each change, with the last changes under it. Ends only by an exception."""
    terminal = Terminal(console.encoding)
    last: deque[Text] = deque(maxlen=LAST)
    waiting = Text(f" waiting for {title} {terminal.ellipsis}", "dim")
    with Live(waiting, console=console, auto_refresh=False, transient=False, vertical_overflow="crop") as live:
        size, current = console.size, None
        for before, after in _pairs(maps):
            if after is None and console.size == size and not maps.trouble:
                continue
            current, size = after or current, console.size
            for change in changes(before, after) if before and after else ():
                line = Text(f"   {now():%H:%M:%S} ", "dim")
                last.append(line.append(terminal.clean(change.text), _STYLES.get(change.change, "")))
            if current is None:
                continue
            below = [Text(), Text(" Last changes", "bold"), *last] if last else []
            if maps.trouble:
                below.append(Text(f" watch failed: {terminal.clean(maps.trouble)}", "bold yellow"))
            live.update(GpuTable(current, title, terminal, console.size.height - 1, tuple(below)), refresh=True)


def _pairs(maps: GpuFollow) -> Iterator[tuple[GpuMap | None, GpuMap | None]]:
    """The previous and the current map; the current one is None if nothing changed for a while."""
    before: GpuMap | None = None
    while True:
        after = maps.next(LOOK)
        yield before, after
        before = after or before


def _write(stream: IO[str], line: str) -> None:
    stream.write(line + "\n")
    stream.flush()
