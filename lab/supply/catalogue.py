"""The catalogue: what kailab can get and from where, read from catalogue.toml."""

from __future__ import annotations

import functools
import platform
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Row = TypeVar("Row")

_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Item:
    """One thing a lab needs: ``kind`` is binary, image or chart; a chart's name carries no version."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class GoRecipe:
    """Programs built from one Go module; ``programs`` maps a program's name to its package."""

    name: str
    module: str
    version: str
    programs: dict[str, str]
    layout: str = "own"
    ldflags: str = ""
    tags: str = ""
    link: str = ""
    mod: str = ""
    cgo: bool = False
    staging: tuple[str, ...] = ()


@dataclass(frozen=True)
class DebLayer:
    """An image layer made of Debian packages, with extra symbolic links."""

    name: str
    packages: tuple[str, ...]
    links: dict[str, str] = field(default_factory=dict)
    applets: bool = False


@dataclass(frozen=True)
class RootfsRecipe:
    """A root file system made by debootstrap plus the files of a kind module's base image."""

    name: str
    suite: str
    packages: tuple[str, ...]
    kind_files: str


@dataclass(frozen=True)
class BinaryRow:
    """A program on the host."""

    name: str
    version: str
    build: str = ""
    release: str = ""
    checksum: str = ""
    member: str = ""
    version_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageRow:
    """A container image. ``in_node``: a released node image carries it already; ``local``: no registry has it."""

    reference: str
    files: dict[str, str] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    user: str = ""
    bind_ports: tuple[str, ...] = ()
    recipe: str = "files"
    in_node: bool = False
    local: bool = False


@dataclass(frozen=True)
class ChartRow:
    """A Helm chart: a URL or an OCI repository, and perhaps a folder of a Go module."""

    name: str
    version: str
    url: str = ""
    oci: str = ""
    build: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Catalogue:
    """All rows for one Kubernetes version and architecture."""

    go: dict[str, GoRecipe]
    debs: dict[str, DebLayer]
    rootfs: dict[str, RootfsRecipe]
    binaries: dict[str, BinaryRow]
    images: dict[str, ImageRow]
    charts: dict[str, ChartRow]

    def image(self, reference: str) -> ImageRow:
        """The row of an image; one without a row can only come from an engine, a bundle or a registry."""
        return self.images.get(reference) or ImageRow(reference, recipe="none")


def arch() -> str:
    """This machine's architecture in the words of container images."""
    return _ARCH.get(platform.machine(), platform.machine())


@functools.cache
def load(kubernetes: str) -> Catalogue:
    """Read the catalogue for a Kubernetes version such as ``1.34.4``."""
    major, minor, _ = kubernetes.split(".", 2)
    text = Path(__file__).with_name("catalogue.toml").read_text()
    for key, value in (
        ("{kubernetes.major}", major), ("{kubernetes.minor}", minor), ("{kubernetes}", kubernetes), ("{arch}", arch()),
    ):  # fmt: skip
        text = text.replace(key, value)
    data = tomllib.loads(text)
    images = [_row(ImageRow, row) for row in data["image"]]
    return Catalogue(
        go={name: _row(GoRecipe, {"name": name, **row}) for name, row in data["go"].items()},
        debs={name: _row(DebLayer, {"name": name, **row}) for name, row in data["debs"].items()},
        rootfs={name: _row(RootfsRecipe, {"name": name, **row}) for name, row in data["rootfs"].items()},
        binaries={row["name"]: _row(BinaryRow, row) for row in data["binary"]},
        images={row.reference: row for row in images},
        charts={f"{row['name']}": _row(ChartRow, row) for row in data["chart"]},
    )


def _row(cls: type[Row], row: dict[str, Any]) -> Row:
    """Make a frozen row; lists become tuples."""
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})
