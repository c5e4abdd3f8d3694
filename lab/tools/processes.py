"""Looks up running processes of this machine."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STARTED = "KAILAB_STARTED"
"""Environment variable of the processes that kailab starts, and of their children."""


@dataclass(frozen=True)
class Process:
    """A running process; ``started`` means that kailab started it. ``line`` is its command line (120 characters)."""

    pid: int
    line: str
    started: bool


def command_line(pid: int) -> list[str]:
    """Arguments of a process; empty when it does not exist or is a zombie."""
    import psutil  # noqa: TID251 - this is the door

    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


def groups_of(pid: int) -> set[int]:
    """Process groups of a group's leader and its descendants: apt, for one, gives dpkg a session of its own."""
    import psutil  # noqa: TID251 - this is the door

    found = {pid}
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(OSError):
                found.add(os.getpgid(child.pid))
    return found - {os.getpgrp()}


def has_living(groups: Collection[int]) -> bool:
    """Whether a process of these groups has not ended; a zombie has."""
    import psutil  # noqa: TID251 - this is the door

    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getpgid(process.pid) in groups and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def processes_naming(path: Path) -> list[Process]:
    """Processes with ``path`` or a path below it as argument.

    Options (``--kubeconfig=PATH``) and lists (``PATH:/mnt``) match; longer names (``PATH2``) do not. This process
    and its ancestors are left out.
    """
    import psutil  # noqa: TID251 - this is the door

    named = re.compile(rf"(?<![^\s=:,;'\"]){re.escape(str(path))}(?![^/\s=:,;'\"])")
    me = psutil.Process()
    own = {process.pid for process in (me, *me.parents())}
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if process.pid not in own and any(named.search(word) for word in words):
            found.append(Process(process.pid, " ".join(words).strip()[:120], _started(process)))
    return found


def end_processes_naming(path: Path, seconds: float = 5.0) -> None:
    """End the processes that kailab started with ``path`` as argument, and their children; kill after ``seconds``."""
    import psutil  # noqa: TID251 - this is the door

    family = []
    for one in processes_naming(path):
        with contextlib.suppress(psutil.Error):
            if one.started:
                process = psutil.Process(one.pid)
                family += [process, *process.children(recursive=True)]
    for signal in ("terminate", "kill"):
        for process in family:
            with contextlib.suppress(psutil.Error):
                getattr(process, signal)()
        _, family = psutil.wait_procs(family, seconds)


def _started(process: Any) -> bool:
    import psutil  # noqa: TID251 - this is the door

    try:
        return STARTED in process.environ()
    except psutil.Error:  # of another user
        return False
