"""A real OCI registry (distribution, built from its Go module) on this machine, and images under other names."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import socket
import subprocess  # noqa: TID251 - a server that the command under test talks to
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

from lab.tools.container import ContainerEngine

LOGIN = ("it", "secret")
_HTPASSWD = "it:$2b$05$zWooKC2twd0it6O/8xvnZuODuxY51tSBIjBNWyZsuUwkDgqHcs9e6\n"


@contextlib.contextmanager
def serving(program: Path, folder: Path, scratch: Path, *, login: bool = False) -> Iterator[str]:
    """Serve the registry whose content is in ``folder``, to all or only with ``LOGIN``; yields ``localhost:PORT``."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    config: dict[str, object] = {
        "version": 0.1,
        "http": {"addr": f"0.0.0.0:{port}"},
        "storage": {"filesystem": {"rootdirectory": str(folder)}},
    }
    if login:
        (scratch / "htpasswd").write_text(_HTPASSWD)
        config["auth"] = {"htpasswd": {"realm": "it", "path": str(scratch / "htpasswd")}}
    (scratch / "registry.json").write_text(json.dumps(config))
    process = subprocess.Popen(
        [program, "serve", scratch / "registry.json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        yield f"localhost:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def renamed(archive: Path, name: str, folder: Path) -> Path:
    """Return the image under another name: labs of parallel tests would take the original one from the engine."""
    target = folder / "renamed.tar"
    with tarfile.open(archive) as old, tarfile.open(target, "w") as new:
        for member in old:
            body = old.extractfile(member)
            if member.name == "manifest.json" and body is not None:
                (image,) = json.load(body)
                text = json.dumps([{**image, "RepoTags": [name]}]).encode()
                member.size, body = len(text), io.BytesIO(text)
            new.addfile(member, body)
    return target


def push(archive: Path, name: str, docker: ContainerEngine, folder: Path) -> None:
    """Push an image under the name of a registry, and leave nothing of it in the engine."""
    docker.call("load", "-q", "-i", str(renamed(archive, name, folder)))
    docker.call("push", "-q", name)
    docker.call("rmi", name)
