"""The ``lab`` command, killed with SIGKILL at the first effect that no earlier run was killed at.

Run as a program with the arguments of ``lab``; KAILAB_SEEN names the file with the effects so far. Effects are
commands, entries of journals, and files that are removed. A command that changes something is an effect twice: before
it starts, and while it runs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.__main__ import main
from lab.engine.journal import Journal
from lab.tools.process import HostRunner

CHANGES = ("rm", "network rm", "volume rm", "rmi", "purge", "remove", "-w", "-l", "-TERM", "-rf")
"""Words after the name of a program that changes something."""

WHILE_SECONDS = 0.05


def _is_new(effect: str) -> bool:
    seen = Path(os.environ["KAILAB_SEEN"])
    if effect in seen.read_text().splitlines():
        return False
    with seen.open("a") as file:
        file.write(f"{effect}\n")
        os.fsync(file.fileno())
    return True


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def effect(name: str) -> None:
    """Die here the first time."""
    if _is_new(name):
        _die()


def install() -> None:
    """Make commands, journals and removed files effects."""
    run, append = HostRunner.run, Journal._append

    def command(self: HostRunner, argv: Sequence[str | Path], **options: Any) -> Any:
        words = [Path(str(word)).name if at == 0 else str(word) for at, word in enumerate(argv)]
        name = " ".join(words[:3])[:60]
        effect(f"before {name}")
        if any(name.split(" ", 1)[-1].startswith(change) for change in CHANGES) and _is_new(f"while {name}"):
            threading.Timer(WHILE_SECONDS, _die).start()
        return run(self, argv, **options)

    def write(self: Journal, entry: dict[str, object]) -> None:
        effect(f"journal {entry['op']} {entry['kind']}")
        append(self, entry)
        effect(f"after journal {entry['op']} {entry['kind']}")

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.remove", "os.rmdir") and str(arguments[0]).endswith((".jsonl", ".json", "owner", "state.db")):
            effect(f"{event} {Path(str(arguments[0])).name}")

    HostRunner.run = command  # type: ignore[method-assign]
    Journal._append = write  # type: ignore[method-assign]
    sys.addaudithook(audit)


if __name__ == "__main__":
    install()
    main()
