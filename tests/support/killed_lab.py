"""The ``kailab`` command that a real SIGKILL ends at one of its effects: ``python -m tests.support.killed_lab ARGS``.

Effects are what changes something: writing requests to an API server, commands, the journal, and files of the state.
Each has a label, such as ``PATCH Node kailab-x-worker`` or ``helm upgrade``; a repeated one gets `` #2``, `` #3``, ….

Environment:
    KAILAB_EFFECTS: a file that gets the label of each effect before it happens, one a line.
    KAILAB_KILL: kill the process just before the effect with this label. After ``in ``: a second after it has begun,
        together with the command that it runs, as in a power cut.
    KAILAB_STOP: stop the process just before the effect with this label, until it gets SIGCONT.
    KAILAB_KILL_NEW: kill it at the first effect of a kind that this file does not have yet, and add that kind: the verb
        and the kind of object, or the command; Helm before it starts, and then in the middle.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab import __main__ as command
from lab import files
from lab.engine.journal import Journal
from lab.kube.rest import RestClient
from lab.tools.process import HostRunner

_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_READS = {
    "helm": ("template", "version"),
    "docker": ("version", "info", "ps", "inspect", "image inspect", "images", "port", "container inspect", "logs"),
}
"""Subcommands that change nothing."""

_QUERIES = ("ctr -n k8s.io images ls", "cat ", "crictl images", "nvidia-smi", "sh -c", "test ")
"""Commands in a node that change nothing."""

_INSIDE_SECONDS = 1.0
_lock = threading.Lock()
_seen: Counter[str] = Counter()


def effect(what: str) -> None:
    """Note an effect that is about to happen; die here if it is the one."""
    with _lock:
        _seen[what] += 1
        label = what if _seen[what] == 1 else f"{what} #{_seen[what]}"
        if path := os.environ.get("KAILAB_EFFECTS"):
            with Path(path).open("a") as file:
                file.write(f"{label}\n")
        if os.environ.get("KAILAB_STOP") == label:
            os.kill(os.getpid(), signal.SIGSTOP)
        wanted = os.environ.get("KAILAB_KILL") or _new(what, label)
        if wanted == label:
            os.kill(os.getpid(), signal.SIGKILL)
        if wanted == f"in {label}":
            threading.Thread(target=_die_with_children, daemon=True).start()


def _new(what: str, label: str) -> str:
    """Where to kill the process at this effect: before it, in it, or not at all."""
    path = os.environ.get("KAILAB_KILL_NEW")
    if not path:
        return ""
    words = what.split()
    kind = words[0] if words[0] == "docker" else " ".join(words[:2])
    file = Path(path)
    used = file.read_text().splitlines() if file.exists() else []
    for point, where in ((kind, label), *([(f"in {kind}", f"in {label}")] if words[0] in ("helm", "kind") else [])):
        if point not in used:
            with file.open("a") as out:
                out.write(f"{point}\n")
            return where
    return ""


def _die_with_children() -> None:
    import psutil  # noqa: TID251 - kills what it has started

    time.sleep(_INSIDE_SECONDS)
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since
            child.kill()
    os.kill(os.getpid(), signal.SIGKILL)


def label_of(argv: Sequence[str]) -> str | None:
    """The label of a command; None if it changes nothing."""
    name = Path(argv[0]).name
    rest = [word for word in argv[1:] if not word.startswith("-")]
    line = " ".join(rest)
    if any(line.startswith(read) for read in _READS.get(name, ())):
        return None
    if name == "docker" and rest[:1] == ["exec"]:
        inside = " ".join(argv[argv.index("exec") + 1 :]).partition(" ")[2]
        return None if any(query in inside for query in _QUERIES) else f"docker exec {inside.split(' ')[0]}"
    return f"{name} {' '.join(rest[: 2 if name == 'kind' else 1])}" if name in ("helm", "docker", "kind") else None


def _install() -> None:
    once, run = RestClient._once, HostRunner.run
    owns, released, write = Journal.owns, Journal.released, files.replacing

    def send(self: RestClient, method: str, path: str, title: str, query: dict[str, Any], *rest: Any) -> bytes:
        if method in _WRITES and "dryRun" not in query:
            effect(f"{method} {title}")
        return once(self, method, path, title, query, *rest)

    def start(self: HostRunner, argv: Sequence[str | Path], **options: Any) -> Any:
        if label := label_of([str(word) for word in argv]):
            effect(label)
        return run(self, argv, **options)

    def claim(self: Journal, kind: str, name: str, step: str, **facts: str) -> None:
        effect(f"journal owns {kind} {Path(name).name}")
        owns(self, kind, name, step, **facts)

    def release(self: Journal, kind: str, name: str) -> None:
        effect(f"journal releases {kind} {Path(name).name}")
        released(self, kind, name)

    def replace(target: Path, *, sync: bool = True) -> Any:
        effect(f"write {target.name}")
        return write(target, sync=sync)

    doors: Mapping[Any, Mapping[str, Any]] = {
        RestClient: {"_once": send},
        HostRunner: {"run": start},
        Journal: {"owns": claim, "released": release},
        files: {"replacing": replace},
    }
    for door, wrapped in doors.items():
        for name, function in wrapped.items():
            setattr(door, name, function)


if __name__ == "__main__":
    _install()
    command.main()
