"""``lab gpus --watch``: a live table on a terminal, one line for each change elsewhere."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO

from rich.console import Console
from rich.console import Console as RichConsole
from rich.live import Live
from rich.text import Text

from lab.gpu.map.diff import GpuChange, changes
from lab.gpu.map.model import GpuMap
from lab.gpu.map.text import summary_line
from lab.gpu.map.watch import GpuFollow
from lab.serialization import to_json
from lab.ui.gpus import GpuTable
from lab.ui.terminal import Terminal

LAST = 5
"""Changes that stay under the live table."""

LOOK = 1.0
"""Seconds without a change after which a live display looks whether its window has changed."""


Now = Callable[[], datetime]


def watch_gpus(maps: GpuFollow, title: str, *, as_json: bool = False, console: Console | None = None) -> None:
    """Show the map and what changes, until the run is cancelled.

    Args:
        maps: gives a map now, and a new one whenever something changed.
        title: whose GPUs they are.
        as_json: one JSON object for each change, also on a terminal.
        console: drawn on instead of one for stdout.

    Raises:
        ApiFailed: the server refuses to list pods or nodes.
        Interrupted: the run was cancelled.
    """
    if as_json:
        write_changes(maps, sys.stdout, as_json=True)
        return

    console = console or RichConsole(highlight=False, emoji=False, markup=False)
    if console.is_terminal:
        draw_live(maps, title, console)
    else:
        write_changes(maps, console.file)


def write_changes(maps: GpuFollow, stream: IO[str], *, as_json: bool = False, now: Now | None = None) -> None:
    """Write a line for what is there, then one for each change. Ends only by an exception."""
    now = now or datetime.now
    words = Terminal(getattr(stream, "encoding", None) or "utf-8")
    trouble = ""
    for before, after in _pairs(maps):
        if after is None:
            if maps.trouble and maps.trouble != trouble and not as_json:
                _write(stream, f"{now():%H:%M:%S} no changes come: {words.clean(maps.trouble)}")
            trouble = maps.trouble
            continue
        if before is None:
            first = {"at": after.at, "change": "start", **to_json(after)["summary"]}
            _write(stream, json.dumps(first) if as_json else f"{now():%H:%M:%S} {summary_line(after)}")
        for change in changes(before or GpuMap(after.at), after):
            line = {"at": after.at, **to_json(change)}
            _write(stream, json.dumps(line) if as_json else f"{now():%H:%M:%S} {words.clean(change.text)}")


def draw_live(maps: GpuFollow, title: str, console: Console, now: Now | None = None) -> None:
    """Draw the table anew at each change, the last changes under it. Ends only by an exception."""
    now = now or datetime.now
    words = Terminal(console.encoding)
    last: deque[Text] = deque(maxlen=LAST)
    waiting = Text(f" waiting for {title} to answer {words.ellipsis}", "dim")
    with Live(waiting, console=console, auto_refresh=False, transient=False, vertical_overflow="crop") as live:
        size, current = console.size, None
        for before, after in _pairs(maps):
            if after is None and console.size == size and not maps.trouble:
                continue
            current, size = after or current, console.size
            if before is not None and after is not None:
                last.extend(_told(change, f"{now():%H:%M:%S}", words) for change in changes(before, after))
            if current is None:
                continue
            below = [Text(), Text(" Last changes", "bold"), *last] if last else []
            if maps.trouble:
                below = [*below, Text(f" no changes come: {words.clean(maps.trouble)}", "bold yellow")]
            live.update(GpuTable(current, title, words, console.size.height - 1, tuple(below)), refresh=True)


def _pairs(maps: GpuFollow) -> Iterator[tuple[GpuMap | None, GpuMap | None]]:
    """The map before and the map now; None for a while in which nothing changed."""
    before: GpuMap | None = None
    while True:
        after = maps.next(LOOK)
        yield before, after
        before = after or before


def _told(change: GpuChange, at: str, words: Terminal) -> Text:
    style = {"waits": "yellow", "gone": "dim", "gpu": "bold yellow", "runs": "green"}.get(change.change, "")
    return Text(f"   {at} ", "dim").append(words.clean(change.text), style)


def _write(stream: IO[str], line: str) -> None:
    """One line, flushed: whoever reads a pipe sees a change when it happens."""
    stream.write(line + "\n")
    stream.flush()
