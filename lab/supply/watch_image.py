"""Makes the image of ``kailab watch`` from Debian packages and this kailab, where no registry is available."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

from lab.sums import digest
from lab.supply.archive import Layer, layer_from_files, write_image
from lab.supply.cache import Progress, scratch
from lab.supply.catalogue import Catalogue, ImageRow
from lab.supply.rootfs import rootfs
from lab.tools.process import Runner

_PACKAGE = Path(__file__).parents[1]
_INSIDE = "/usr/lib/python3/dist-packages/lab"
"""On Debian's sys.path."""
_NOT_CODE = ("_assets", "suites")
"""Folders that only a wheel has."""

# What a container that runs one Python program never uses.
_UNUSED = (
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/aarch64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/perl-base",
    "usr/lib/aarch64-linux-gnu/perl-base",
    "usr/lib/systemd",
    "usr/lib/udev",
    "usr/share/zoneinfo",
    "usr/share/perl5",
    "usr/share/bash-completion",
    "var/lib/dpkg/info",
    "var/log",
)


def inputs(catalogue: Catalogue) -> list[object]:
    """Everything that the image depends on, for its key in the cache."""
    return [asdict(catalogue.rootfs["watch"]), {name: path.read_text() for name, path in _sources().items()}, 1]


def make(row: ImageRow, catalogue: Catalogue, target: Path, run: Runner, progress: Progress) -> Path:
    """Write the image's archive to ``target``. Raises CommandFailed, HostNotReady."""
    base = rootfs(catalogue.rootfs["watch"], _settle, run, progress)
    progress(f"image {row.reference}", None, None)
    with scratch(target) as folder:
        files = {}
        for name, source in _sources().items():
            copy = files[f"{_INSIDE}/{name}"] = folder / "lab" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            copy.chmod(0o644)  # a checkout may be private, the container's user is another one
        upper = layer_from_files(folder / "upper.tar", files)
        layers = [Layer(base, digest(base)), upper]
        return write_image(target, row.reference, layers, entrypoint=row.entrypoint, user=row.user)


def _sources() -> dict[str, Path]:
    """The files of this package, by their path in it."""
    kinds = ("*.py", "*.toml", "*.json")
    found = {path.relative_to(_PACKAGE): path for kind in kinds for path in _PACKAGE.rglob(kind)}
    return {str(name): found[name] for name in sorted(found) if name.parts[0] not in _NOT_CODE}


def _settle(root: Path, run: Runner) -> None:
    for unused in _UNUSED:
        shutil.rmtree(root / unused, ignore_errors=True)
