"""Drives ``tests.support.killed_lab``: kills a ``lab`` command at one of its effects, or at each in turn."""

from __future__ import annotations

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
    """Runs ``lab`` with this environment in this directory, so that it can be killed at an effect."""

    env: Mapping[str, str]
    cwd: Path

    def run(self, *words: str, seconds: float = 900, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, or to the kill that the variables in ``more`` define."""
        return subprocess.run(
            [sys.executable, "-m", "tests.support.killed_lab", *words],
            env={**self.env, "PYTHONPATH": str(ROOT), **more},
            cwd=self.cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
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
