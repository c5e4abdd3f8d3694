"""Bundles: folders or tars with images, charts and binaries, and a manifest of sha256 sums.

With a bundle a lab can come up without any network, or without a container registry.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lab.errors import LabError
from lab.paths import bundles_root, cache_root
from lab.supply.archive import digest
from lab.supply.cache import Progress, key_of, making, replacing
from lab.supply.catalogue import Item

SCHEMA = 1

MADE = "made by kailab"
"""Version of images from the catalogue's recipes, such as a node image without kindnet."""
_MANIFEST = "kailab-bundle.json"


@dataclass(frozen=True)
class Entry:
    """One file of a bundle; ``size`` in bytes, ``version`` for charts and binaries."""

    kind: str
    name: str
    version: str
    file: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Bundle:
    """A bundle with its manifest read; contents are checked by ``verify`` and when a file is first used."""

    root: Path
    entries: tuple[Entry, ...]
    created: str

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Read a bundle's manifest, after unpacking a tar into the cache once. Raises LabError."""
        root = unpacked(path) if path.is_file() else path
        try:
            data = json.loads((root / _MANIFEST).read_text())
            if data["schema"] != SCHEMA:
                raise LabError(f"bundle {path} has schema {data['schema']}; this kailab reads schema {SCHEMA}")
            entries = tuple(Entry(**row) for row in data["entries"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabError(
                f"{path} is not a kailab bundle: {type(error).__name__}: {error}",
                fix="remove it, or make one with 'lab bundle create --out DIR'",
            ) from error
        for entry in entries:
            inside = PurePosixPath(entry.file)
            if inside.is_absolute() or ".." in inside.parts:
                raise LabError(f"bundle {path}: entry {entry.name} points outside the bundle: {entry.file}")
        return cls(root, entries, str(data.get("created", "")))

    def find(self, item: Item, version: str = "") -> Entry | None:
        """The entry of an item, in that version if one is given."""
        for entry in self.entries:
            if (entry.kind, entry.name) == (item.kind, item.name) and version in ("", entry.version):
                return entry
        return None

    def path(self, entry: Entry) -> Path:
        return self.root / entry.file

    def check(self, entry: Entry) -> str:
        """How an entry's file differs from the manifest, or an empty text."""
        path = self.path(entry)
        if not path.is_file():
            return f"{entry.file}: missing"
        if path.stat().st_size != entry.size:
            return f"{entry.file}: {path.stat().st_size} bytes, expected {entry.size}"
        found = digest(path)
        return "" if found == entry.sha256 else f"{entry.file}: sha256 {found[:16]}…, expected {entry.sha256[:16]}…"

    def trusted(self, entry: Entry) -> Path:
        """The entry's file after checking it once for its size and time. Raises LabError if the check fails."""
        path = self.path(entry)
        checked: Path | None = None
        if path.exists():
            stat = path.stat()
            checked = cache_root() / "checked" / key_of(str(path), entry.sha256, stat.st_size, stat.st_mtime_ns)
        if checked is None or not checked.exists():
            if wrong := self.check(entry):
                raise LabError(f"bundle {self.root}: {wrong}", fix=f"make the bundle again, or delete {self.root}")
            if checked is not None:
                checked.parent.mkdir(parents=True, exist_ok=True)
                checked.touch()
        return path

    def verify(self) -> list[str]:
        """Check every file, and return the differences from the manifest."""
        listed = {entry.file for entry in self.entries} | {_MANIFEST}
        present = sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())
        wrong = [wrong for entry in self.entries if (wrong := self.check(entry))]
        return wrong + [f"{file}: not in the manifest" for file in present if file not in listed]

    def as_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "created": self.created, "entries": self.entries}


def create(out: Path, items: Iterable[tuple[Item, str, Path]], progress: Progress) -> Bundle:
    """Write a bundle of (item, version, file) to a folder, or to a tar if the name ends in ``.tar``.

    Raises LabError if ``out`` exists or cannot be written.
    """
    if out.exists():
        raise LabError(f"{out} already exists", fix="choose a new path, or delete it first")
    items = list(items)
    with replacing(out) as temporary:
        folder = temporary.with_name(temporary.name + ".d") if out.suffix == ".tar" else temporary
        try:
            _fill(folder, items, progress)
            if folder is not temporary:
                with tarfile.open(temporary, "w") as tar:
                    for path in sorted(folder.rglob("*")):
                        tar.add(path, str(path.relative_to(folder)), recursive=False)
        finally:
            if folder is not temporary:
                shutil.rmtree(folder, ignore_errors=True)
    return Bundle.open(out)


def installed() -> tuple[Bundle, ...]:
    """Bundles in the cache's bundle directory, by name. Raises LabError for an unreadable one."""
    return tuple(Bundle.open(path) for path in sorted(bundles_root().glob("*")) if (path / _MANIFEST).is_file())


def _fill(folder: Path, items: list[tuple[Item, str, Path]], progress: Progress) -> None:
    folder.mkdir(parents=True)
    entries = []
    for number, (item, version, source) in enumerate(items, 1):
        progress(str(item), number, len(items))
        suffix = {"image": ".tar", "chart": ".tgz"}.get(item.kind, "")
        slug = item.name.replace("/", "_").replace(":", "_")
        if item.kind == "chart" and version:  # a bundle may have several versions of a chart
            slug = f"{slug}-{version}"
        target = folder / f"{item.kind}s" / f"{slug}{suffix}"
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            with tarfile.open(target, "w") as tar:
                tar.add(source, ".")
        else:
            try:
                os.link(source, target)
            except OSError:
                shutil.copy2(source, target)
        file = str(target.relative_to(folder))
        entries.append(Entry(item.kind, item.name, version, file, digest(target), target.stat().st_size))
    manifest = {
        "schema": SCHEMA,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "entries": [asdict(entry) for entry in entries],
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def unpacked(path: Path) -> Path:
    """Unpack a tar into the cache once, and return the folder."""
    stat = path.stat()
    target = cache_root() / "unpacked" / key_of(str(path.absolute()), stat.st_size, stat.st_mtime_ns)
    with making(target) as needed:
        if needed:
            with replacing(target) as temporary, tarfile.open(path) as tar:
                temporary.mkdir()
                tar.extractall(temporary, filter="data")
    return target
