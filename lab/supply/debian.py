"""Image layers, and single programs, from Debian packages."""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
import zlib
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path

from lab.errors import Unavailable
from lab.sums import digest
from lab.supply.archive import Layer, layer_from_files
from lab.supply.cache import key_of, making, place, scratch
from lab.supply.catalogue import DebLayer
from lab.tools.debian import Debian
from lab.tools.process import Runner

# Documentation, useless in an image and half of its files.
_DROP = ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/bug", "usr/share/locale", "usr/share/info")

_MERGED = ("bin", "lib", "lib64", "sbin")

_AR = b"!<arch>\n"
_AR_HEADER = 60
_AR_SIZE = slice(48, 58)


def unpack_programs(package: Path, names: Collection[str], into: Path) -> None:
    """Copy the programs of these names from a package's /usr/bin into a folder; needs no dpkg, unlike ``layer``.

    Raises Unavailable for another kind of file.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(_data(package.read_bytes()))) as tar:
            for member in tar:
                folder, _, name = member.name.removeprefix("./").rpartition("/")
                source = tar.extractfile(member) if folder == "usr/bin" and name in names else None
                if source is not None:
                    with (into / name).open("wb") as file:
                        shutil.copyfileobj(source, file)
                    (into / name).chmod(0o755)
    except (ValueError, tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise Unavailable(
            f"{package.name} cannot be unpacked as a Debian package: {error}",
            fix="run the command again; if this persists, report it",
        ) from error


def _data(package: bytes) -> bytes:
    """The data.tar of a package, which is an ar archive (deb(5)). Raises ValueError."""
    if not package.startswith(_AR):
        raise ValueError("not an ar archive")
    at = len(_AR)
    while len(header := package[at : at + _AR_HEADER]) == _AR_HEADER:
        size = int(header[_AR_SIZE])
        at += _AR_HEADER
        if header.startswith(b"data.tar"):
            return package[at : at + size]
        at += size + size % 2
    raise ValueError("no data.tar in it")


def layer(recipe: DebLayer, run: Runner) -> Layer:
    """A layer with the files of the recipe's packages, made once. Raises CommandFailed."""
    target = place("layers", f"{recipe.name}.tar", key_of(asdict(recipe)))
    with making(target, run) as needed:
        if needed:
            debian = Debian(run)
            # beside the target: /tmp may be small, or mounted noexec, and busybox from the package is run
            with scratch(target) as folder:
                debs, root = folder / "debs", folder / "root"
                debs.mkdir()
                root.mkdir()
                for package in debian.download(recipe.packages, debs):
                    debian.unpack(package, root)
                for useless in _DROP:
                    shutil.rmtree(root / useless, ignore_errors=True)
                links = {f"/{name}": f"usr/{name}" for name in _MERGED} | recipe.links
                if recipe.applets:
                    links |= _applets(root, run)
                files = _merged(root)
                layer_from_files(target, {path: files[path] for path in files if path not in links}, links)
    return Layer(target, digest(target))


def _merged(root: Path) -> dict[str, Path]:
    """Files by path in the image, all below /usr: packages of older releases still use /bin, /lib and /sbin."""
    files: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        inside = str(path.relative_to(root))
        files[f"/usr/{inside}" if inside.split("/")[0] in _MERGED else f"/{inside}"] = path
    return files


def _applets(root: Path, run: Runner) -> dict[str, str]:
    """Links for busybox's applets such as ``sleep``."""
    busybox = next(path for path in (root / "bin/busybox", root / "usr/bin/busybox") if path.exists())
    return {f"/usr/bin/{name}": "busybox" for name in run.run([busybox, "--list"]).out.split() if name != "busybox"}
