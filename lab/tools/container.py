"""Facade over docker, podman and nerdctl."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tenacity import retry, retry_if_exception, retry_if_exception_type, stop_after_delay, wait_fixed

from lab.errors import CommandFailed
from lab.tools.process import Result, Runner

R = TypeVar("R")

_REMOVAL_SECONDS = 150.0
_PAUSE_SECONDS = 30.0

_SEVERAL = re.compile(r"\bis ambiguous\b")
"""Docker about networks of one name."""
_GONE = re.compile(r"no such (?!file)|not found|no \w+ found|unable to find", re.IGNORECASE)
"""How docker, podman and nerdctl say that an object does not exist."""

_REFUSED = re.compile(r"operation not permitted|permission denied|read-only file system", re.IGNORECASE)
"""How engines say that they cannot remove a file, now or later."""

_WRITE = 'mkdir -p "${1%/*}" && cat >"$1.kailab" && chmod "$2" "$1.kailab" && mv "$1.kailab" "$1"'


@dataclass(frozen=True)
class Container:
    """A container as the engine reports it; ``state`` is running, exited, created, …"""

    name: str
    id: str
    state: str
    labels: Mapping[str, str]
    ip: str
    gateway: str = ""
    mounts: tuple[str, ...] = ()
    """Mount points of volumes and of the machine's files."""
    volumes: tuple[str, ...] = ()
    """Names of its volumes, anonymous ones too."""
    image: str = ""
    started: str = ""
    """The last start, RFC 3339."""


class ContainerEngine:
    """One container engine: docker, podman or nerdctl. Methods raise CommandFailed."""

    _seen: dict[object, Future[Any]] | None = None

    def __init__(self, run: Runner, name: str = "docker") -> None:
        self._run = run
        self.name = name
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """In this block nothing changes: containers of a label and files in them are read once, for all threads."""
        self._seen = {}
        try:
            yield
        finally:
            self._seen = None

    def _once(self, key: object, read: Callable[[], R]) -> R:
        """What ``read`` returns; within ``reading`` it is called once for each key."""
        if (seen := self._seen) is None:
            return read()
        with self._lock:
            first = key not in seen
            future: Future[R] = seen.setdefault(key, Future())
        if first:
            try:
                future.set_result(read())
            except BaseException as error:  # noqa: BLE001 - raised below, in every thread that waits
                future.set_exception(error)
        return future.result()

    def call(
        self, *args: str, stdin: str | bytes | None = None, check: bool = True, timeout: float | None = None
    ) -> Result:
        """Run one engine command."""
        return self._run.run([self.name, *args], stdin=stdin, check=check, timeout=timeout)

    def exec(
        self,
        container: str,
        argv: Sequence[str],
        *,
        stdin: str | bytes | None = None,
        check: bool = True,
        timeout: float | None = None,
    ) -> Result:
        """Run a command in a running container."""
        flag = ["-i"] if stdin is not None else []
        return self.call("exec", *flag, container, *argv, stdin=stdin, check=check, timeout=timeout)

    def read_file(self, container: str, path: str, *, timeout: float) -> str:
        """The text of a file in a container; empty without it, or if the container does not run."""
        read = partial(self.exec, container, ["cat", path], check=False, timeout=timeout)
        return self._once((container, path), read).out

    def write_file(self, container: str, path: str, text: str, mode: str = "0644") -> None:
        """Write a file in a running container, with a rename so that readers never see half of it."""
        self.exec(container, ["sh", "-c", _WRITE, "kailab", path, mode], stdin=text)

    @staticmethod
    def read_only_mount(path: str) -> tuple[str, ...]:
        """Options of ``run`` that mount a path of the machine at the same place; ``-v`` would split it at ``:``."""
        fields = io.StringIO()
        csv.writer(fields, lineterminator="").writerow(["type=bind", f"source={path}", f"target={path}", "readonly"])
        return "--mount", fields.getvalue()

    def copy_in(self, container: str, source: Path, target: str) -> None:
        """Copy a file or directory into a container."""
        self.call("cp", str(source), f"{container}:{target}")

    def containers(self, label: str) -> tuple[Container, ...]:
        """All containers, running or not, that carry ``label`` (``key`` or ``key=value``), oldest first."""
        return self._once(label, lambda: self._containers(label))

    def _containers(self, label: str) -> tuple[Container, ...]:
        ids = self.call("ps", "-aq", "--no-trunc", "--filter", f"label={label}").out.split()
        return tuple(reversed(self._inspect(ids)))

    def inspect(self, container: str) -> Container | None:
        """The container of that name or id, or None."""
        return next(iter(self._inspect([container])), None)

    def _inspect(self, names: Sequence[str]) -> list[Container]:
        """Those that exist. In one call, as each costs some hundredths of a second, unless one is gone meanwhile."""
        if not names:
            return []
        result = self.call("inspect", "--type", "container", *names, check=False)
        if result.code == 0:
            return [_container(data) for data in json.loads(result.out)]
        if len(names) == 1:
            _require_gone(result)
            return []
        return [one for name in names for one in self._inspect([name])]

    @retry(
        retry=retry_if_exception_type(CommandFailed),
        stop=stop_after_delay(_PAUSE_SECONDS),
        wait=wait_fixed(0.2),
        reraise=True,
    )
    def pause(self, *containers: str) -> None:
        """Freeze running containers: all of them, or none if one cannot be frozen.

        Retried for 30 s: with cgroup v1 a process that waits for the disk cannot be frozen, and runc gives up within
        a second ("unable to freeze"; 40 of 60 tries with runc 1.1 while four processes wrote to the disk).
        """
        try:
            self.call("pause", *containers)
        except CommandFailed:
            self.unpause(*containers)
            raise

    def unpause(self, *containers: str) -> None:
        """Continue those that are frozen."""
        if frozen := [found.name for found in self._inspect(containers) if found.state == "paused"]:
            self.call("unpause", *frozen)

    @retry(
        retry=retry_if_exception(lambda error: isinstance(error, CommandFailed) and not _REFUSED.search(error.err)),
        stop=stop_after_delay(_REMOVAL_SECONDS),
        wait=wait_fixed(2),
        reraise=True,
    )
    def remove(self, *containers: str) -> None:
        """Remove containers, running or not, with their volumes; ignore missing ones.

        Retried for 150 s: a busy docker gives up ("could not kill: tried to kill container, but did not receive an
        exit event", seen with 20.10) although the container disappears a moment later. Not if it may not remove a file.
        """
        found = [name for name in containers if self.inspect(name) is not None]
        if found:
            self.call("rm", "-f", "-v", *found)

    def exists(self, kind: str, name: str) -> bool:
        """Whether a ``network`` or ``volume`` of that name exists. Raises CommandFailed if the engine does not say."""
        result = self.call(kind, "inspect", name, check=False)
        if result.code == 0 or _SEVERAL.search(result.err):
            return True
        _require_gone(result)
        return False

    def discard(self, kind: str, name: str) -> None:
        """Remove a ``network`` or ``volume``, all of that name, if the engine lets it go."""
        if _SEVERAL.search(self.call(kind, "rm", name, check=False).err):
            ids = self.call(kind, "ls", "--quiet", "--filter", f"name=^{name}$").out.split()
            self.call(kind, "rm", *ids, check=False)

    def users_of_network(self, name: str) -> tuple[str, ...]:
        """Names of the containers that are attached to a network; the engine itself lists only running ones."""
        return tuple(self.call("ps", "-a", "--filter", f"network={name}", "--format", "{{.Names}}").out.split())

    def image_id(self, reference: str) -> str | None:
        """Id of a local image, or None."""
        return self.image_ids([reference]).get(reference)

    def image_ids(self, references: Sequence[str]) -> dict[str, str]:
        """Ids of those that are local images, by reference; one call if all or none of them are."""
        if not references:
            return {}
        result = self.call("image", "inspect", "--format", "{{.Id}}", *references, check=False)
        ids = result.out.split()
        if result.code == 0 or not ids:
            return dict(zip(references, ids, strict=result.code == 0))
        return {ref: one for ref in references for one in self.image_ids([ref]).values()}


def _require_gone(inspected: Result) -> None:
    """Raise CommandFailed unless the engine says that the object does not exist: one that is silent proves nothing."""
    if not _GONE.search(inspected.err + inspected.out):
        raise CommandFailed(inspected.argv, inspected.code, inspected.out, inspected.err)


def _container(data: dict[str, Any]) -> Container:
    networks = (data.get("NetworkSettings", {}).get("Networks") or {}).values()
    return Container(
        name=data["Name"].lstrip("/"),
        id=data["Id"],
        state=data["State"]["Status"],
        labels=data["Config"].get("Labels") or {},
        ip=next((n["IPAddress"] for n in networks if n.get("IPAddress")), ""),
        gateway=next((n["Gateway"] for n in networks if n.get("Gateway")), ""),
        mounts=tuple(str(mount["Destination"]) for mount in data.get("Mounts") or ()),
        volumes=tuple(str(m["Name"]) for m in data.get("Mounts") or () if m.get("Type") == "volume"),
        image=data["Config"].get("Image") or "",
        started=data["State"].get("StartedAt") or "",
    )
