"""Bundles: folders or tars with images, charts and binaries, and a manifest of sha256 sums.

With a bundle a lab can come up without any network, or without a container registry.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath

from lab import sums
from lab.errors import LabError
from lab.files import remove
from lab.paths import bundles_root, cache_root
from lab.supply.cache import alone, key_of, making, replacing, scratch, sweep
from lab.supply.catalogue import Item

SCHEMA = 1

MADE = "made by kailab"
"""Version of images from the catalogue's recipes, such as a node image without kindnet."""
_MANIFEST = "kailab-bundle.json"


@dataclass(frozen=True)
class Entry:
    """One file of a bundle; ``size`` in bytes, ``version`` for charts and binaries. Raises ValueError."""

    kind: str
    name: str
    version: str
    file: str
    sha256: str
    size: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not {"size": int}.get(field.name, str):
                raise ValueError(f"entry {self.name!r:.80} has {field.name} {value!r:.80}")
        if not 0 <= self.size < 2**63:
            raise ValueError(f"entry {self.name!r:.80} has a size out of range")
        for text in (self.kind, self.name, self.version, self.file, self.sha256):
            if not text.isprintable():
                raise ValueError(f"entry {self.name!r:.80} has a control character: {text!r:.80}")


@dataclass(frozen=True)
class Bundle:
    """A bundle with its manifest read; contents are checked by ``verify`` and when a file is first used."""

    root: Path
    entries: tuple[Entry, ...]
    created: str

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Read a bundle's manifest, after unpacking a tar into the cache once. Raises LabError."""
        if path.is_file():
            return cls._read(unpacked(path, lambda root: cls._read(root, path)), path)
        return cls._read(path, path)

    @classmethod
    def _read(cls, root: Path, path: Path) -> Bundle:
        """Read the manifest in ``root``, the folder of the bundle at ``path``. Raises LabError."""
        try:
            file = root / _MANIFEST
            if file.exists() and not file.is_file():
                raise ValueError(f"{_MANIFEST} is not a file")
            data = json.loads(file.read_text())
            if data["schema"] != SCHEMA:
                raise LabError(
                    f"bundle {path} has schema {data['schema']!r:.80}; this kailab reads schema {SCHEMA}",
                    fix="make it again with this kailab: 'kailab bundle create --out DIR'",
                )
            created = str(data.get("created", ""))
            bundle = cls(
                root, tuple(Entry(**row) for row in data["entries"]), created if created.isprintable() else "?"
            )
            outside = [entry for entry in bundle.entries if not bundle._contains(entry)]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise LabError(
                f"{path} is not a kailab bundle: {type(error).__name__}: {error!s:.300}",
                fix="remove it, or make one with 'kailab bundle create --out DIR'",
            ) from error
        for entry in outside:
            raise LabError(
                f"bundle {path}: entry {entry.name} points outside the bundle: {entry.file}",
                fix="do not use it; make one with 'kailab bundle create --out DIR'",
            )
        return bundle

    def _contains(self, entry: Entry) -> bool:
        """Whether the entry's file is below the bundle's folder, also when symbolic links are followed."""
        inside = PurePosixPath(entry.file)
        if inside.is_absolute() or ".." in inside.parts:
            return False
        return Path(os.path.realpath(self.path(entry))).is_relative_to(os.path.realpath(self.root))

    def find(self, item: Item, version: str = "") -> Entry | None:
        """The entry of an item, in that version if one is given."""
        for entry in self.entries:
            if (entry.kind, entry.name) == (item.kind, item.name) and version in ("", entry.version):
                return entry
        return None

    def path(self, entry: Entry) -> Path:
        return self.root / entry.file

    def check(self, entry: Entry, *, read: bool = True) -> str:
        """How an entry's file differs from the manifest, or an empty text; see ``sums.damage`` for ``read``."""
        wrong = self.incomplete(entry) or sums.damage(self.path(entry), entry.sha256, read=read)
        return wrong and f"{entry.file}: {wrong}"

    def incomplete(self, entry: Entry) -> str:
        """That an entry's file is missing or has another size, or an empty text; does not read the file."""
        path = self.path(entry)
        if not path.is_file():
            return "missing"
        size = path.stat().st_size
        return "" if size == entry.size else f"{size} bytes, expected {entry.size}"

    def trusted(self, entry: Entry) -> Path:
        """The entry's file after checking it once for its size and time. Raises LabError if the check fails."""
        if wrong := self.check(entry, read=False):
            raise LabError(f"bundle {self.root}: {wrong}", fix=f"make the bundle again, or delete {self.root}")
        return self.path(entry)

    def verify(self) -> list[str]:
        """Check every file, and return the differences from the manifest."""
        listed = {entry.file for entry in self.entries} | {_MANIFEST}
        present = sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir())
        wrong = [wrong for entry in self.entries if (wrong := self.check(entry))]
        return wrong + [f"{ascii(file)[1:-1]}: not in the manifest" for file in present if file not in listed]

    @property
    def schema(self) -> int:
        return SCHEMA

    JSON = "schema created entries"


def create(out: Path, items: Iterable[tuple[Item, str, Path]]) -> Bundle:
    """Write a bundle of (item, version, file) to a folder, or to a tar if the name ends in ``.tar``.

    Items may be made while they are iterated: ``out`` is checked before. Raises LabError if ``out`` exists or cannot be
    written, or if a file of the cache differs from its recorded sum.
    """
    with alone(str(out.absolute())):
        if out.exists():
            raise LabError(f"{out} already exists", fix="choose a new path, or delete it first")
        sweep(out, others=False)
        with replacing(out) as temporary:
            if out.suffix == ".tar":
                with scratch(out) as folder:
                    _fill(folder, items)
                    with tarfile.open(temporary, "w") as tar:
                        for path in sorted(folder.rglob("*")):
                            tar.add(path, str(path.relative_to(folder)), recursive=False)
            else:
                temporary.mkdir()
                _fill(temporary, items)
    return Bundle.open(out)


def installed() -> tuple[Bundle, ...]:
    """Bundles in the cache's bundle directory, by name. Raises LabError for an unreadable one."""
    return tuple(Bundle.open(path) for path in sorted(bundles_root().glob("*")) if (path / _MANIFEST).is_file())


def _fill(folder: Path, items: Iterable[tuple[Item, str, Path]]) -> None:
    entries = []
    for item, version, source in items:
        # a file of the user may have changed since an earlier bundle
        ours = source.absolute().is_relative_to(cache_root())
        if ours and (wrong := sums.damage(source, read=True)):
            raise LabError(f"{item}: {source} is damaged: {wrong}", fix="run the command again: it is made again")
        suffix = {"image": ".tar", "chart": ".tgz"}.get(item.kind, "")
        slug = item.name.replace("/", "_").replace(":", "_")
        if item.kind == "chart" and version:  # a bundle may have several versions of a chart
            slug = f"{slug}-{version}"
        target = folder / {"binary": "binaries"}.get(item.kind, f"{item.kind}s") / f"{slug}{suffix}"
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
        entries.append(Entry(item.kind, item.name, version, file, sums.digest(target), target.stat().st_size))
    manifest = {
        "schema": SCHEMA,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "entries": [asdict(entry) for entry in entries],
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def unpacked(path: Path, check: Callable[[Path], object] = lambda root: None) -> Path:
    """Unpack a tar of files and folders into the cache once, and return the folder.

    ``check`` is called with the folder before it counts as unpacked. Raises LabError.
    """
    stat, name = path.stat(), key_of(str(path.absolute()))
    target = cache_root() / "unpacked" / f"{name}-{key_of(stat.st_size, stat.st_mtime_ns)}"
    with making(target) as needed:
        if needed:
            with replacing(target) as temporary:
                temporary.mkdir()
                try:
                    with tarfile.open(path) as tar:
                        tar.extractall(temporary, filter=_files_only)  # noqa: S202 - with a filter
                except Exception as error:
                    # tarfile raises whatever a damaged header leads to; what has a number comes from writing
                    if getattr(error, "errno", None):
                        raise
                    raise LabError(
                        f"{path} cannot be unpacked: {type(error).__name__}: {error!s:.300}",
                        fix="copy it again, or make one with 'kailab bundle create --out DIR'",
                    ) from error
                check(temporary)
            for old in target.parent.glob(f"{name}-*"):  # of what was at this path before
                if old != target:
                    remove(old)
    return target


def _files_only(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Refuse what no bundle has, such as links to other files and files larger than what is stored of them."""
    if member.issparse() or not (member.isreg() or member.isdir() or member.islnk()):
        raise tarfile.TarError(f"{member.name!r:.80} is neither a file nor a folder")
    return tarfile.data_filter(member, folder)
