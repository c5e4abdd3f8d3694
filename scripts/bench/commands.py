"""Runs commands as a user would, and measures their time and their CPU."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess  # noqa: TID251 - measures the commands as a user runs them
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.tools.background import Background

ROOT = Path(__file__).parents[2]
KAILAB = [sys.executable, "-m", "lab"]
LIMIT = 1800.0

_SAMPLE_SECONDS = 0.25
_CGROUPS = (
    ("cpuacct/docker/*/cpuacct.usage", 1e-9),
    ("docker/*/cpu.stat", 1e-6),
    ("system.slice/docker-*.scope/cpu.stat", 1e-6),
    ("machine.slice/libpod-*.scope/cpu.stat", 1e-6),
)
"""CPU time of containers below /sys/fs/cgroup, and its unit in seconds: cgroup v1, v2 with both drivers, podman."""


@dataclass(frozen=True)
class Timed:
    """A command: wall seconds, CPU seconds of its processes, and the CPU of the containers that it made, by time."""

    seconds: float
    cpu: float
    containers: tuple[tuple[float, float], ...] = ()
    """Seconds since the start → CPU seconds so far; empty where cgroups do not tell."""

    def between(self, began: float, ended: float) -> float | None:
        """CPU seconds of the containers in a time; None where they were not measured."""
        if not self.containers:
            return None
        return self._at(ended) - self._at(began)

    def _at(self, when: float) -> float:
        before = (0.0, 0.0)
        for at, used in self.containers:
            if at >= when:
                return before[1] + (used - before[1]) * (when - before[0]) / max(at - before[0], 1e-6)
            before = at, used
        return before[1]


def timed(
    argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None, *, sample: bool = False
) -> Timed:
    """Run a command with its output in a file.

    Python keeps compiled modules, as on a user's machine, also where the environment forbids it. With ``sample`` the
    containers' CPU is read four times per second. Raises LabError with the end of the output.
    """
    before, others = _children(), set(_usage())
    seen: list[tuple[float, float]] = []
    began = time.monotonic()

    def watch(stopping: threading.Event) -> None:
        while not stopping.wait(_SAMPLE_SECONDS):
            used = [value for name, value in _usage().items() if name not in others]
            if used or seen:
                seen.append((time.monotonic() - began, sum(used)))

    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(env or {})},
            start_new_session=True,
        )
        try:
            if sample:
                with Background(watch, "CPU of containers"):
                    code = process.wait(timeout=LIMIT)
            else:
                code = process.wait(timeout=LIMIT)
        except BaseException:
            _stop(process)
            raise
    seconds = time.monotonic() - began
    if code != 0:
        tail = log.read_text(errors="replace").splitlines()[-30:]
        what = f"{shlex.join(map(str, argv))} ended with {code} after {seconds:.1f} s"
        raise LabError(what, evidence=tail, fix="see the output above; the run was not counted")
    return Timed(seconds, _children() - before, tuple(seen))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _usage() -> dict[str, float]:
    """CPU seconds of each container, by the path of its cgroup."""
    found = {}
    for pattern, unit in _CGROUPS:
        for path in Path("/sys/fs/cgroup").glob(pattern):
            try:
                # cpu.stat begins with "usage_usec N"
                found[str(path)] = float(path.read_text().split("\n", 1)[0].split()[-1]) * unit
            except (OSError, ValueError, IndexError):  # the container ended
                continue
    return found


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate a command and its children, then kill them."""
    for how, patience in ((signal.SIGTERM, 60.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, how)
            process.wait(timeout=patience)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return
