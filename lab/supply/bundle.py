"""Bundles: a folder or tar that carries images, charts and binaries with a manifest of sha256 sums.

A bundle is how a lab comes up without any network, and how KAI reaches machines that see no container registry.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lab.errors import LabError
from lab.paths import bundles_root, cache_root
from lab.supply.archive import digest
from lab.supply.cache import key_of, making, replacing
from lab.supply.catalogue import Item

SCHEMA = 1

MADE = "made by kailab"
"""Version of an image that a recipe of the catalogue made: a node image without kindnet, for one."""
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
    """A bundle whose manifest was read; file contents are checked by ``verify`` or when a file is first used."""

    root: Path
    entries: tuple[Entry, ...]
    created: str

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Read a bundle's manifest; a tar is unpacked into the cache once.

        Raises:
            LabError: no bundle, or a manifest of another schema.
        """
        root = unpacked(path) if path.is_file() else path
        try:
            data = json.loads((root / _MANIFEST).read_text())
            if data["schema"] != SCHEMA:
                raise LabError(f"bundle {path} has schema {data['schema']}; this kailab reads schema {SCHEMA}")
            entries = tuple(Entry(**row) for row in data["entries"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabError(
                f"{path} is no kailab bundle: {type(error).__name__}: {error}",
                fix="take it away, or make one with 'lab bundle create --out DIR'",
            ) from error
        for entry in entries:
            inside = PurePosixPath(entry.file)
            if inside.is_absolute() or ".." in inside.parts:
                raise LabError(f"bundle {path}: entry {entry.name} points outside the bundle: {entry.file}")
        return cls(root, entries, str(data.get("created", "")))

    def find(self, item: Item, version: str = "") -> Entry | None:
        """The entry for an item; charts and binaries must have the wanted version."""
        for entry in self.entries:
            if (entry.kind, entry.name) == (item.kind, item.name) and version in ("", entry.version):
                return entry
        return None

    def path(self, entry: Entry) -> Path:
        return self.root / entry.file

    def check(self, entry: Entry) -> str:
        """Empty when the file is whole, otherwise what is wrong with it."""
        path = self.path(entry)
        if not path.is_file():
            return f"{entry.file}: missing"
        if path.stat().st_size != entry.size:
            return f"{entry.file}: {path.stat().st_size} bytes, the manifest says {entry.size}"
        found = digest(path)
        return (
            ""
            if found == entry.sha256
            else f"{entry.file}: sha256 {found[:16]}…, the manifest says {entry.sha256[:16]}…"
        )

    def trusted(self, entry: Entry) -> Path:
        """The entry's file after its sum was checked; a passed check is remembered by size and time of the file.

        Raises:
            LabError: the file is not what the manifest says.
        """
        path = self.path(entry)
        stat = path.stat() if path.exists() else None
        seen = (
            cache_root() / "checked" / key_of(str(path), entry.sha256, stat.st_size, stat.st_mtime_ns) if stat else None
        )
        if seen is None or not seen.exists():
            if wrong := self.check(entry):
                raise LabError(f"bundle {self.root}: {wrong}", fix=f"make the bundle again, or delete {self.root}")
            if seen is not None:
                seen.parent.mkdir(parents=True, exist_ok=True)
                seen.touch()
        return path

    def verify(self) -> list[str]:
        """Check every file; returns what is wrong, an empty list for a whole bundle."""
        listed = {entry.file for entry in self.entries} | {_MANIFEST}
        strangers = sorted(
            str(path.relative_to(self.root))
            for path in self.root.rglob("*")
            if path.is_file() and str(path.relative_to(self.root)) not in listed
        )
        return [wrong for entry in self.entries if (wrong := self.check(entry))] + [
            f"{s}: not in the manifest" for s in strangers
        ]

    def as_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "created": self.created, "entries": self.entries}


def create(
    out: Path, items: Iterable[tuple[Item, str, Path]], progress: Callable[[str, int | None, int | None], None]
) -> Bundle:
    """Write a bundle of (item, version, file) to ``out``: a folder, or a tar when the name ends in ``.tar``.

    Raises:
        LabError: ``out`` exists, or cannot be written.
    """
    if out.exists():
        raise LabError(f"{out} exists", fix="name a new path, or delete it first")
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
    """Bundles in the cache's bundle directory, by name. Raises LabError for one that cannot be read."""
    root = bundles_root()
    return (
        tuple(Bundle.open(path) for path in sorted(root.glob("*")) if (path / _MANIFEST).is_file())
        if root.is_dir()
        else ()
    )


def _fill(
    folder: Path, items: list[tuple[Item, str, Path]], progress: Callable[[str, int | None, int | None], None]
) -> None:
    folder.mkdir(parents=True)
    entries = []
    for number, (item, version, source) in enumerate(items, 1):
        progress(str(item), number, len(items))
        suffix = {"image": ".tar", "chart": ".tgz"}.get(item.kind, "")
        slug = item.name.replace("/", "_").replace(":", "_")
        if item.kind == "chart" and version:  # several versions of one chart may lie side by side
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
    """A tar's content as a folder in the cache; unpacked once."""
    stat = path.stat()
    target = cache_root() / "unpacked" / key_of(str(path.absolute()), stat.st_size, stat.st_mtime_ns)
    with making(target) as needed:
        if needed:
            with replacing(target) as temporary, tarfile.open(path) as tar:
                temporary.mkdir()
                tar.extractall(temporary, filter="data")
    return target
