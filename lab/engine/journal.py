"""The journal: an append-only file of the objects that a lab owns.

A record is written *before* the object is created, so that a kill between the two leaves a claim to check, not an
orphan. Readers ignore a torn last line (power cut, full disk).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.files import append_private


@dataclass(frozen=True)
class Owned:
    """An object that a lab owns; ``kind`` is container, image, file, network, host-change, …"""

    kind: str
    name: str
    step: str
    facts: Mapping[str, str]


class Journal:
    """The journal file at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def owns(self, kind: str, name: str, step: str, **facts: str) -> None:
        """Record that the lab owns, or is about to create, an object. Raises LabError; then create nothing."""
        if any(o.kind == kind and o.name == name and dict(o.facts) == facts for o in self.owned()):
            return
        self._append({"op": "owns", "kind": kind, "name": name, "step": step, "facts": facts})

    def released(self, kind: str, name: str) -> None:
        self._append({"op": "released", "kind": kind, "name": name})

    def owned(self, kind: str | None = None) -> tuple[Owned, ...]:
        """The objects owned now, in the order of their claims. Raises LabError if the journal is unreadable."""
        alive: dict[tuple[str, str], Owned] = {}
        for entry in self._entries():
            key = (entry["kind"], entry["name"])
            if entry["op"] == "released":
                alive.pop(key, None)
            elif entry["op"] == "owns":
                alive[key] = Owned(key[0], key[1], entry.get("step", ""), entry.get("facts", {}))
        return tuple(o for o in alive.values() if kind is None or o.kind == kind)

    def _entries(self) -> list[dict[str, Any]]:
        try:
            text = self.path.read_text(errors="replace")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LabError(
                f"cannot read the journal {self.path}: {error.strerror}",
                fix="fix the permissions of that file, then re-run the command",
            ) from error
        entries = []
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:  # torn by a kill while writing
                continue
            if isinstance(entry, dict) and all(isinstance(entry.get(k), str) for k in ("op", "kind", "name")):
                entries.append(entry)
        return entries

    def _append(self, entry: dict[str, object]) -> None:
        line = json.dumps({"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **entry})
        try:
            with self._lock:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                torn = self.path.exists() and not self.path.read_bytes().endswith(b"\n")
                with append_private(self.path) as file:
                    file.write(("\n" if torn and self.path.stat().st_size else "") + line + "\n")
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise LabError(
                f"cannot write the journal {self.path}: {error.strerror}",
                fix="free disk space or fix the permissions of that directory, then re-run the command",
            ) from error
