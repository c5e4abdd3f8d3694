"""The secrets of a lab, and the places in which none of them may be: to prove that no command writes one down."""

from __future__ import annotations

import base64
import binascii
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab.kube import Cluster
from lab.objects.redact import TOKEN_PREFIX
from lab.session.lab import Lab

PRIVATE = ("client-key-data", "token", "password")
SHORTEST = 12
"""Bytes of the shortest value to search for: shorter ones occur in other text."""

_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s(.*?)-----END", re.DOTALL)
_PUBLIC = re.compile(rb"-----BEGIN (CERTIFICATE|PUBLIC KEY)-----.*?-----END (CERTIFICATE|PUBLIC KEY)-----", re.DOTALL)

Needles = Mapping[str, frozenset[bytes]]
"""Forms of each secret, by a name that may be shown."""


def needles(lab: Lab) -> dict[str, frozenset[bytes]]:
    """The private keys and tokens of a lab's kubeconfigs, and the values of all Secrets in its clusters."""
    found: dict[str, frozenset[bytes]] = {}
    for path in kubeconfigs(lab):
        for user in yaml.safe_load(path.read_text())["users"]:
            for key in PRIVATE:
                if value := user["user"].get(key):
                    found[f"{path.name}: {key}"] = forms(value.encode())
    for name, cluster in {"": lab.cluster, **{one.name: lab.tenant(one.name) for one in lab.tenants}}.items():
        found |= {f"{name or 'host'}: {key}": value for key, value in _in_cluster(cluster)}
    return {name: value for name, value in found.items() if value}


def kubeconfigs(lab: Lab) -> list[Path]:
    """The files that hold keys on purpose."""
    return [lab.paths.kubeconfig, *(lab.paths.tenant_kubeconfig(one.name) for one in lab.tenants)]


def _in_cluster(cluster: Cluster) -> Iterator[tuple[str, frozenset[bytes]]]:
    for secret in cluster.list("Secret"):
        meta = secret["metadata"]
        if secret.get("type") == "bootstrap.kubernetes.io/token":
            continue  # kind's is the same, public one in every cluster (abcdef.0123456789abcdef)
        for key, value in (secret.get("data") or {}).items():
            yield f"Secret {meta['namespace']}/{meta['name']}: {key}", forms(value.encode())
    for pod in cluster.list("Pod"):
        meta = pod["metadata"]
        for key, value in (meta.get("annotations") or {}).items():
            if key.startswith(TOKEN_PREFIX):
                yield f"Pod {meta['namespace']}/{meta['name']}: {key}", forms(value.encode())


def forms(value: bytes) -> frozenset[bytes]:
    """A value in base64, in clear, and a line of a private key in it; empty for what is public or too short."""
    try:
        clear = base64.b64decode(value, validate=True)
    except binascii.Error:
        clear = value
    secret = _PUBLIC.sub(b"", clear).strip()
    if len(secret) < SHORTEST:
        return frozenset()
    keys = [max(key.split(), key=len) for key in _KEY.findall(clear)]
    return frozenset({value, clear.strip(), base64.b64encode(clear), *keys})


def leaks(texts: Mapping[str, bytes], secrets: Needles) -> dict[str, list[str]]:
    """Names of the secrets in each text that has any; never the secrets themselves."""
    found = {
        where: [name for name, all_ in secrets.items() if any(one in text for one in all_)]
        for where, text in texts.items()
    }
    return {where: names for where, names in found.items() if names}


def files_below(*roots: Path, without: Iterable[Path] = ()) -> dict[str, bytes]:
    """The content of all files in folders, except those in or below ``without``."""
    left_out = tuple(without)
    return {
        str(path): path.read_bytes()
        for root in roots
        for path in ([root] if root.is_file() else root.rglob("*"))
        if path.is_file() and not any(path.is_relative_to(one) for one in left_out)
    }


@dataclass
class ProcessWatch:
    """Collects command lines and environments of the processes that have ``mark`` in their environment."""

    mark: bytes
    seen: dict[str, bytes] = field(default_factory=dict)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: Any = None

    def __enter__(self) -> ProcessWatch:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Read what runs now."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environ, words = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if self.mark in environ:
                name = words.replace(b"\0", b" ").decode(errors="replace")[:60]
                self.seen[f"process {folder.name}: {name}"] = words + b"\n" + environ

    def _run(self) -> None:
        while not self._end.wait(0.02):
            self.look()
