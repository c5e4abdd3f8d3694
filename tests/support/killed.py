"""Drives ``tests.support.killed_lab``: kills a ``kailab`` command at one of its effects, or at each in turn."""

from __future__ import annotations

import os
import subprocess  # noqa: TID251 - the command under test, from outside
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

ROOT = Path(__file__).parents[2]
_MOST = 100
"""Runs after which a series of kills is stuck."""


@dataclass(frozen=True)
class Killable:
    """Runs ``kailab`` with this environment in this directory, so that it can be killed at an effect."""

    env: Mapping[str, str]
    cwd: Path

    def run(self, *words: str, seconds: float = 900, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, or to the kill that the variables in ``more`` define."""
        process = self._start(*words, **more)
        try:
            out, err = process.communicate(timeout=seconds)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def stopped(self, point: str, *words: str) -> subprocess.Popen[str]:
        """A command that has stopped itself just before an effect, until it gets SIGCONT; fails if it ends before."""
        process = self._start(*words, KAILAB_STOP=point)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{point} was not reached: {status}\n{process.communicate()}"
        return process

    def _start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.killed_lab", *words],
            env={**self.env, "PYTHONPATH": str(ROOT), **more},
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def kill(self, point: str, *words: str) -> None:
        """Kill a command just before an effect (``in EFFECT``: a second after it began); fails if it is not reached."""
        done = self.run(*words, KAILAB_KILL=point)
        assert done.returncode == -SIGKILL, f"{point} was not reached: {done.returncode}\n{done.stdout}\n{done.stderr}"

    def kill_everywhere(self, *words: str, code: int = 0) -> Sequence[str]:
        """Repeat a command, killed each time at a new kind of effect, until it ends with ``code``.

        Returns where it was killed. Fails when a repeated command fails.
        """
        used = self.cwd / f"killed-{'-'.join(words[:2])}"
        used.unlink(missing_ok=True)
        for _ in range(_MOST):
            done = self.run(*words, KAILAB_KILL_NEW=str(used))
            points = used.read_text().splitlines() if used.exists() else []
            if done.returncode != -SIGKILL:
                assert done.returncode == code, f"after {points[-1:]}: {done.returncode}\n{done.stdout}\n{done.stderr}"
                return points
        raise AssertionError(f"{words} does not get on: {points}")
