"""Drives ``tests.support.killed_lab``: records the effects of a command, and kills it at one of them."""

from __future__ import annotations

import re
import subprocess  # noqa: TID251 - the command under test, from outside
import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_killable(
    words: Iterable[str], env: Mapping[str, str], cwd: Path, *, kill: str = "", effects: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``lab`` with these arguments; kill it at the effect ``kill``, and note all effects in a file."""
    added = {"PYTHONPATH": str(ROOT), "KAILAB_KILL": kill, "KAILAB_EFFECTS": str(effects or "")}
    return subprocess.run(
        [sys.executable, "-m", "tests.support.killed_lab", *words],
        env={**env, **added},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        stdin=subprocess.DEVNULL,
    )


def kill_points(effects: Iterable[str]) -> list[str]:
    """The effects at which to kill: the first of each series of equal ones, and Helm at work."""
    firsts = [next(labels) for _, labels in groupby(effects, key=_alike)]
    return [point for label in firsts for point in ((label, f"in {label}") if label.startswith("helm") else (label,))]


def _alike(label: str) -> str:
    """What effects of one series share: the same verb and kind, or one of the commands that load images."""
    words = re.sub(r" #\d+$", "", label).split()
    return words[0] if words[0] == "docker" else " ".join(words[:2])
