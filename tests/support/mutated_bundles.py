"""Bundles with one fault each, made from a seed: what a broken disk, a cut transfer or an attacker leaves."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.sums import digest
from lab.supply import Item
from lab.supply.archive import layer_from_files, write_image
from lab.supply.bundle import create

MANIFEST = "kailab-bundle.json"
ITEMS = {"image": "registry.k8s.io/pause:3.10.1", "chart": "vcluster", "binary": "helm"}
"""In every bundle, with version 1 of chart and binary; also the folder of programs ``container-toolkit``."""

_NUMBERS = (None, True, 0, -1, 1, 2, 10**18, 10**400, 1.5, float("nan"), float("inf"), [], [[]], {}, {"a": 1})
_TEXTS = ("", ".", "..", "../x", "/etc/passwd", "a\0b", "\ud800", "\x1b[2Jx", "a\nb", "x" * 5000, "1", "images")
_VALUES: tuple[Any, ...] = (*_NUMBERS, *_TEXTS, "0" * 64, "A" * 64, MANIFEST)


def sound(folder: Path) -> Path:
    """Write a bundle that is right in everything."""
    parts = folder.parent / f"{folder.name}.parts"
    programs = parts / "programs"
    programs.mkdir(parents=True)
    for name in ("helm", "nvidia-ctk"):
        (programs / name).write_bytes(random.Random(name).randbytes(3000))
    layer = layer_from_files(parts / "layer.tar", {"/bin/helm": programs / "helm"})
    image = write_image(parts / "image.tar", ITEMS["image"], [layer])
    files = {"image": image, "chart": programs / "helm", "binary": programs / "nvidia-ctk"}
    items = [(Item(kind, name), "" if kind == "image" else "1", files[kind]) for kind, name in ITEMS.items()]
    create(folder, [*items, (Item("binary", "container-toolkit"), "1", programs)])
    for file in (path for path in folder.rglob("*") if path.is_file()):  # no hard links to the parts
        body = file.read_bytes()
        file.unlink()
        file.write_bytes(body)
        file.chmod(0o755)
    shutil.rmtree(parts)
    return folder


class Mutation:
    """A copy of a sound bundle in ``folder`` with one fault; ``path`` is the folder or the tar, ``text`` the fault."""

    def __init__(self, folder: Path, original: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.folder = folder / "bundle"
        self.path = self.folder
        shutil.copytree(original, self.folder)
        kinds = (self.value, self.value, self.structure, self.manifest_text, self.file, self.sums_right, self.tar)
        kind: Callable[[], str] = self.chance.choice([*kinds, self.tar, self.member, self.member])
        self.text = f"seed {seed}: {kind.__name__}: {kind()}"

    def _data(self) -> Any:
        return json.loads((self.folder / MANIFEST).read_text())

    def _write(self, data: Any) -> None:
        (self.folder / MANIFEST).write_text(json.dumps(data))

    def _file(self) -> Path:
        files = sorted(path for path in self.folder.rglob("*") if path.is_file() and path.name != MANIFEST)
        return self.chance.choice(files)

    def value(self) -> str:
        """A wrong value, or a missing key."""
        data = self._data()
        entry: dict[str, Any] = self.chance.choice([data, *data["entries"] * 2])
        key = self.chance.choice(sorted(entry))
        if self.chance.random() < 0.15:
            del entry[key]
            text = f"no {key}"
        else:
            entry[key] = self.chance.choice(_VALUES)
            text = f"{key} = {entry[key]!r:.40}"
        self._write(data)
        return text

    def structure(self) -> str:
        """Entries twice, of an unknown kind, with unknown keys, or none; another schema; nested data."""
        data = self._data()
        entry: dict[str, Any] = self.chance.choice(data["entries"])
        text = self.chance.choice(["twice", "other file", "kind", "key", "none", "schema", "nested", "list", "root"])
        match text:
            case "twice":
                data["entries"].append(entry)
            case "other file":
                data["entries"].insert(0, {**entry, "file": self.chance.choice(data["entries"])["file"]})
            case "kind":
                entry["kind"] = "model"
            case "key":
                entry["mode"] = "0777"
            case "none":
                data["entries"] = []
            case "schema":
                data["schema"] = self.chance.choice([0, 2, "1", None, [1], 1.0, True])
            case "nested":
                data["entries"] = [data["entries"]]
            case "list":
                data = [data]
            case _:
                data = self.chance.choice([None, 1, "text", [], {}])
        self._write(data)
        return text

    def manifest_text(self) -> str:
        """The manifest's bytes: cut, changed, not UTF-8, deeply nested, not a file."""
        file = self.folder / MANIFEST
        body = file.read_bytes()
        at = self.chance.randrange(len(body))
        text = self.chance.choice(["cut", "bit", "latin", "deep", "empty", "bom", "digits", "gone", "folder", "fifo"])
        file.unlink()
        match text:
            case "cut":
                file.write_bytes(body[:at])
            case "bit":
                file.write_bytes(body[:at] + bytes([body[at] ^ 1 << self.chance.randrange(8)]) + body[at + 1 :])
            case "latin":
                file.write_bytes(body[:at] + b"\xff\xfe" + body[at:])
            case "deep":
                file.write_text("[" * 200_000)
            case "empty":
                file.touch()
            case "bom":
                file.write_bytes(b"\xef\xbb\xbf" + body)
            case "digits":
                file.write_bytes(body.replace(b'"size": ', b'"size": ' + b"9" * 5000))
            case "folder":
                file.mkdir()
            case "fifo":
                os.mkfifo(file)
        return text

    def file(self) -> str:
        """One file of the bundle: cut, changed, missing, or something else than a file."""
        file = self._file()
        body = file.read_bytes()
        text = self.chance.choice(["cut", "bit", "gone", "folder", "out", "loop", "dangling", "fifo", "more", "long"])
        if text not in ("more", "bit", "cut", "long"):
            file.unlink()
        match text:
            case "cut":
                file.write_bytes(body[: self.chance.randrange(len(body))])
            case "bit":
                at = self.chance.randrange(len(body))
                file.write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
            case "folder":
                file.mkdir()
            case "out":  # the sum is right, but the file is another's
                outside = self.folder.parent / "victim"
                outside.write_bytes(body)
                file.symlink_to(outside)
            case "loop":
                file.symlink_to(file.name)
            case "dangling":
                file.symlink_to("/nonexistent/file")
            case "fifo":
                os.mkfifo(file)
            case "more":
                (self.folder / "images" / "more\x1b[2J.tar").touch()
            case "long":
                file.write_bytes(body + b"\0" * 4096)
        return f"{text} {file.name}"

    def sums_right(self) -> str:
        """A broken image, chart or folder of programs whose sum in the manifest is that of the broken file."""
        data = self._data()
        entry: dict[str, Any] = self.chance.choice(data["entries"])
        file = self.folder / entry["file"]
        body = file.read_bytes()
        cut = body[: self.chance.randrange(len(body))]
        file.write_bytes(self.chance.choice([cut, cut, b"", b"no archive", gzip.compress(body)[:-9]]))
        entry.update(sha256=digest(file), size=file.stat().st_size)
        self._write(data)
        return f"{entry['name']} cut to {entry['size']} bytes"

    def _packed(self) -> bytes:
        self.path = self.folder.parent / "bundle.tar"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path in sorted(self.folder.rglob("*")):
                tar.add(path, str(path.relative_to(self.folder)), recursive=False)
        shutil.rmtree(self.folder)
        return packed.getvalue()

    def tar(self) -> str:
        """A tar whose bytes are wrong."""
        body = bytearray(self._packed())
        headers = [at for at in range(0, len(body), 512) if body[at + 257 : at + 262] == b"ustar"]
        at = self.chance.choice(headers)
        text = self.chance.choice(
            ["cut", "cut at a header", "bits", "header", "size", "gzip", "empty", "garbage", "folder", "sound"]
        )
        match text:
            case "cut":
                del body[self.chance.randrange(len(body)) :]
            case "cut at a header":
                del body[at:]
            case "bits":
                for _ in range(20):
                    body[self.chance.randrange(len(body))] ^= 1 << self.chance.randrange(8)
            case "header" | "size":
                where = range(124, 136) if text == "size" else range(157)
                for _ in range(3):
                    body[at + self.chance.choice(where)] = self.chance.choice(b"\0\xff\x807/.")
                _seal(body, at)
            case "gzip":
                body = bytearray(gzip.compress(bytes(body))[: -self.chance.randrange(1, 2000)])
            case "empty":
                body.clear()
            case "garbage":
                body[:] = self.chance.randbytes(len(body))
        self.path.write_bytes(body)
        if text == "folder":
            self.path.unlink()
            self.path.mkdir()
        return f"{text} at {at}"

    def member(self) -> str:
        """A tar with a member that no bundle has."""
        body = self._packed()
        more: dict[str, dict[str, Any]] = {
            "up": {"name": "../../escaped"},
            "absolute": {"name": str(self.folder.parent / "escaped")},
            "symlink": {"name": "images/x", "type": tarfile.SYMTYPE, "linkname": "../../../victim"},
            "hardlink": {"name": "images/x", "type": tarfile.LNKTYPE, "linkname": "/etc/passwd"},
            "device": {"name": "images/x", "type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3},
            "fifo": {"name": "images/x", "type": tarfile.FIFOTYPE},
            "twice": {"name": MANIFEST},
            "pax": {"name": "images/x", "pax_headers": {"size": "no number", "mtime": "1e400"}},
            "name": {"name": "images/\udcff\udcfe"},
            "deep": {"name": "/".join(["x" * 250] * 20)},
            "file-and-folder": {"name": f"{MANIFEST}/x"},
            "time": {"name": "images/x", "mtime": 8**11 * 2**20},
        }
        text = self.chance.choice([*more, "through", "huge", "sparse"])
        packed = io.BytesIO()
        form = tarfile.PAX_FORMAT if text == "pax" else tarfile.GNU_FORMAT
        with tarfile.open(fileobj=io.BytesIO(body)) as old, tarfile.open(fileobj=packed, mode="w", format=form) as new:
            late = self.chance.random() < 0.5
            members = [(info, old.extractfile(info)) for info in old]
            for info, file in members[: len(members) if late else 2]:
                new.addfile(info, file)
            if text == "through":
                link = tarfile.TarInfo("out")
                link.type, link.linkname = tarfile.SYMTYPE, ".."
                new.addfile(link)
                more[text] = {"name": "out/../../escaped"}
            if text in more:
                info = tarfile.TarInfo()
                for key, value in more[text].items():
                    setattr(info, key, value)
                new.addfile(info, io.BytesIO())
            elif text == "huge":
                info = tarfile.TarInfo("images/x")
                info.size = 8 * 2**60
                new.fileobj.write(info.tobuf(tarfile.GNU_FORMAT))  # type: ignore[union-attr]
            else:
                new.fileobj.write(_sparse("images/x", 2**43))  # type: ignore[union-attr]
            for info, file in members[len(members) if late else 2 :]:
                new.addfile(info, file)
        self.path.write_bytes(packed.getvalue())
        return f"{text}{' at the end' if late else ''}"


def _seal(body: bytearray, at: int) -> None:
    """Correct a header's check sum, so that the reader believes it."""
    body[at + 148 : at + 156] = b" " * 8
    body[at + 148 : at + 156] = f"{sum(body[at : at + 512]):06o}\0 ".encode()


def _sparse(name: str, size: int) -> bytes:
    """A file of ``size`` bytes of zeros in a header of GNU's old sparse format."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.GNUTYPE_SPARSE
    body = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    body[483:495] = b"\x80" + size.to_bytes(11, "big")
    _seal(body, 0)
    return bytes(body)
