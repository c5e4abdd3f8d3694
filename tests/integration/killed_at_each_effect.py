"""The ``kailab`` command, killed with SIGKILL at the first effect that no earlier run was killed at.

Run as a program with the arguments of ``kailab``; KAILAB_SEEN names the file with the effects so far. Effects are
commands that do not only read, entries of journals, and files that are removed. A longer command is an effect three
times: before it starts, while it runs, and while it runs together with it, as in a power cut.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess  # noqa: TID251 - the command under test, from outside
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # noqa: TID251 - kills what it has started

from lab.__main__ import main
from lab.engine.journal import Journal
from lab.tools.process import HostRunner

if TYPE_CHECKING:
    from tests.integration.conftest import Cli

CHANGES = ("rm", "network rm", "volume rm", "rmi", "purge", "remove", "-w", "-l", "-TERM", "-rf")
"""Words after the name of a program that changes something, and takes a moment."""

READS = re.compile(
    r"docker (version|ps|images|info|inspect|(\w+ )?(ls|inspect))\b|ctr |dpkg --verify|dpkg-query"
    r"|apt-get \w+ -s|cat |ls |find (?!.* -delete$)|iptables(-legacy)? (.* )?-S"
)
"""Commands that only read."""

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


def _die_with_children() -> None:
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    _die()


def run_until_it_survives(cli: Cli, *words: str) -> list[str]:
    """Repeat a command that is killed at a further effect each time, until it succeeds; return these effects."""
    seen = cli.root / "seen"
    seen.touch()
    cli.env["KAILAB_SEEN"] = str(seen)
    for _ in range(400):
        argv = [__file__ if word == "lab" else word for word in cli.argv(*words) if word != "-m"]
        done = subprocess.run(argv, env=cli.env, cwd=cli.root, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return seen.read_text().splitlines()
        killed = (-signal.SIGKILL, 128 + signal.SIGKILL)
        assert done.returncode in killed, f"{seen.read_text()}\n{done.stdout}\n{done.stderr}"
    raise AssertionError(seen.read_text())


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
        if READS.match(" ".join(words)):
            return run(self, argv, **options)
        effect(f"before {name}")
        if any(name.split(" ", 1)[-1].startswith(change) for change in CHANGES):
            if _is_new(f"while {name}"):
                threading.Timer(WHILE_SECONDS, _die).start()
            elif _is_new(f"with {name}"):
                threading.Timer(WHILE_SECONDS, _die_with_children).start()
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
