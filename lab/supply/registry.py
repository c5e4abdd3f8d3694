"""Images and charts from container registries, pulled by the engine and by Helm."""

from __future__ import annotations

import functools
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab.supply.cache import replacing
from lab.tools.container import ContainerEngine
from lab.tools.process import Runner
from lab.tools.retry import retried

_CONNECT_SECONDS = 2.0


def mirrored(reference: str, mirrors: Mapping[str, str]) -> str:
    """A reference with its registry replaced by the mirror that the lab file sets for it."""
    host, _, rest = reference.partition("/")
    return f"{without_scheme(mirrors[host])}/{rest}" if host in mirrors else reference


def without_scheme(address: str) -> str:
    """A mirror's address as engines and Helm need it: without http:// or https:// and trailing slash."""
    return address.rpartition("://")[2].rstrip("/")


@functools.cache
def reachable(host: str) -> bool:
    """Whether a TCP connection to ``host`` (``name`` or ``name:port``) opens within two seconds."""
    name, _, port = host.partition(":")
    if name == "docker.io":
        name = "registry-1.docker.io"
    try:
        with socket.create_connection((name, int(port or 443)), _CONNECT_SECONDS):
            return True
    except OSError:
        return False


def exists(reference: str, engine: ContainerEngine) -> bool:
    """Whether the registry has the image."""
    insecure = ["--insecure"] if is_local(reference) and engine.name == "docker" else []
    return engine.call("manifest", "inspect", *insecure, reference, check=False, timeout=30).code == 0


@retried()
def fetch(reference: str, mirrors: Mapping[str, str], engine: ContainerEngine, target: Path) -> Path:
    """Pull an image into an archive, and remove it from the engine if it was not there before.

    All of it is retried: another program may remove the image from the engine meanwhile. Raises CommandFailed.
    """
    source = mirrored(reference, mirrors)
    new = [name for name in dict.fromkeys([reference, source]) if engine.image_id(name) is None]
    try:
        engine.call("pull", "-q", source)
        if source != reference:
            engine.call("tag", source, reference)
        return save(reference, engine, target)
    finally:
        for name in new:
            engine.call("rmi", name, check=False)


def save(reference: str, engine: ContainerEngine, target: Path) -> Path:
    """Write an image of the engine to an archive. Raises CommandFailed."""
    with replacing(target) as temporary:
        engine.call("save", "-o", str(temporary), reference)
    return target


@retried()
def pull_chart(helm: Path, reference: str, version: str, mirrors: Mapping[str, str], run: Runner, target: Path) -> Path:
    """Pull a chart (``oci://…`` or a URL) into ``target``. Raises CommandFailed."""
    plain: list[str] = []
    if reference.startswith("oci://"):
        source = mirrored(reference.removeprefix("oci://"), mirrors)
        plain = ["--plain-http"] if is_local(source) else []
        where = [f"oci://{source}", "--version", version]
    else:
        where = [reference]
    target.parent.mkdir(parents=True, exist_ok=True)
    # in the cache: /tmp may be another file system, from which nothing can be renamed into the cache
    with tempfile.TemporaryDirectory(prefix=".chart-", dir=target.parent) as folder:
        env = {"HELM_CACHE_HOME": folder, "HELM_CONFIG_HOME": folder, "HELM_DATA_HOME": folder}
        run.run([helm, "pull", *where, *plain, "--destination", folder], env=env)
        with replacing(target) as temporary:
            next(Path(folder).glob("*.tgz")).rename(temporary)
    return target


def is_local(reference: str) -> bool:
    """Whether a reference or host is on this machine, for which engines use plain HTTP."""
    return reference.split("/")[0].split(":")[0] in ("localhost", "127.0.0.1")
