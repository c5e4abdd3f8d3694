"""Writes container images as archives, without an engine.

The format is Docker's, which ``docker load`` and ``ctr images import`` read. Equal content gives equal bytes: entries
are sorted, owned by root and have no time, so an image's digest is that of its content.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.sums import digest
from lab.supply.cache import replacing
from lab.supply.catalogue import arch

# struct vfs_cap_data (linux/capability.h): revision 2, effective; permitted: CAP_NET_BIND_SERVICE (bit 10)
_NET_BIND_SERVICE = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0).decode("ascii")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CREATED = "1970-01-01T00:00:00Z"


@dataclass(frozen=True)
class Layer:
    """An uncompressed layer tar on disk and its digest (hex sha256)."""

    path: Path
    digest: str


def layer_from_files(
    target: Path, files: Mapping[str, Path], links: Mapping[str, str] | None = None, bind_ports: Collection[str] = ()
) -> Layer:
    """Write a layer that contains ``files`` (path in the image → file or folder here) and symbolic ``links``.

    Programs in ``bind_ports`` get the file capability to listen below port 1024 without root rights.
    """
    links = links or {}
    with replacing(target) as temporary, tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as tar:
        written: set[str] = set()
        for inside in sorted({*files, *links}):
            _add_parents(tar, inside, written)
            if inside in files:
                _add(tar, inside.lstrip("/"), files[inside], written, inside in bind_ports)
            else:
                info = tarfile.TarInfo(inside.lstrip("/"))
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, links[inside], 0o777
                tar.addfile(info)
    return Layer(target, digest(target))


def write_image(
    target: Path,
    reference: str,
    layers: Iterable[Layer],
    *,
    entrypoint: Iterable[str] = (),
    user: str = "",
    env: Mapping[str, str] | None = None,
    stop_signal: str = "",
) -> Path:
    """Write an image archive named ``reference`` to ``target`` and return it."""
    layers = list(layers)
    process = {
        "Env": [f"{k}={v}" for k, v in {"PATH": _PATH, **(env or {})}.items()],
        "Entrypoint": list(entrypoint),
        "User": user,
        "StopSignal": stop_signal,
    }
    config = json.dumps(
        {
            "architecture": arch(),
            "os": "linux",
            "created": _CREATED,
            "config": {key: value for key, value in process.items() if value},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]},
            "history": [{"created": _CREATED, "created_by": "kailab"} for _ in layers],
        },
        sort_keys=True,
    ).encode()
    name = hashlib.sha256(config).hexdigest()
    tars = {f"{layer.digest}/layer.tar": layer.path for layer in layers}
    manifest = [
        {"Config": f"{name}.json", "RepoTags": [reference], "Layers": [f"{layer.digest}/layer.tar" for layer in layers]}
    ]
    with replacing(target) as temporary, tarfile.open(temporary, "w", format=tarfile.GNU_FORMAT) as tar:
        _add_bytes(tar, f"{name}.json", config)
        for inside, path in tars.items():
            info = tarfile.TarInfo(inside)
            info.size = path.stat().st_size
            with path.open("rb") as file:
                tar.addfile(info, file)
        _add_bytes(tar, "manifest.json", json.dumps(manifest).encode())
    return target


def _add(tar: tarfile.TarFile, inside: str, source: Path, written: set[str], bind_port: bool = False) -> None:
    info = tar.gettarinfo(str(source), inside)
    if bind_port:
        info.pax_headers = {"SCHILY.xattr.security.capability": _NET_BIND_SERVICE}
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    if source.is_dir() and not source.is_symlink():
        if inside not in written:
            tar.addfile(info)
            written.add(inside)
        for child in sorted(source.iterdir()):
            _add(tar, f"{inside}/{child.name}", child, written)
    elif info.isreg():
        with source.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def _add_parents(tar: tarfile.TarFile, inside: str, written: set[str]) -> None:
    parts = inside.strip("/").split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        if folder not in written:
            written.add(folder)
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(info)


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
