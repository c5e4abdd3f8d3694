"""The catalogue: what kailab can get and from where, read from catalogue.toml."""

from __future__ import annotations

import functools
import platform
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from lab.errors import SpecError
from lab.kai import line_of
from lab.kai.names import KAI_CHART

Row = TypeVar("Row")


_TENANT_IMAGE = "ghcr.io/loft-sh/kubernetes:v{kubernetes}"
"""The image that vCluster takes a tenant's API server, controller manager and scheduler from."""

_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Item:
    """One thing a lab needs: ``kind`` is binary, image or chart; a chart's name carries no version.

    ``version`` is empty for the one that the lab file asks for on the host, and for images, whose name says it. A
    second version beside that one names itself: a tenant's own KAI, ``Item("chart", "kai-scheduler", "v0.9.3")``.
    """

    kind: str
    name: str
    version: str = ""

    def __str__(self) -> str:
        return " ".join(word for word in (self.kind, self.name, self.version) if word)


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
    """All rows for the Kubernetes version of the nodes, and those of other versions that run in tenants."""

    go: dict[str, GoRecipe]
    debs: dict[str, DebLayer]
    rootfs: dict[str, RootfsRecipe]
    binaries: dict[str, BinaryRow]
    images: dict[str, ImageRow]
    charts: dict[str, ChartRow]

    def image(self, reference: str) -> ImageRow:
        """The row of an image; one without a row can only come from an engine, a bundle or a registry."""
        return self.images.get(reference) or ImageRow(reference, recipe="none")

    def chart(self, name: str, version: str = "") -> ChartRow | None:
        """The row of a chart in a version, with the address where that version is published; None for an unknown name.

        KAI's charts moved from one registry to another, so its address follows the line of the version. Only the
        version of the table can be built, from the Go module that the table names.
        """
        row = self.charts.get(name)
        if row is None:
            return None
        version = version or row.version
        if name == KAI_CHART:
            return replace(row, version=version, oci=_kai_address(version))
        if version == row.version:
            return row
        return replace(row, version=version, url=row.url.replace(row.version, version), build={})


def chart_version(name: str, version: str) -> str:
    """A version as the chart itself spells it: KAI's have a leading v, as its tags do."""
    return f"v{version.removeprefix('v')}" if version and name == KAI_CHART else version


def _kai_address(version: str) -> str:
    try:
        return line_of(version.removeprefix("v")).chart
    except SpecError:  # older than all that is known of KAI
        return ""


def arch() -> str:
    """This machine's architecture in the words of container images."""
    return _ARCH.get(platform.machine(), platform.machine())


@functools.cache
def load(kubernetes: str) -> Catalogue:
    """Read the catalogue for a Kubernetes version such as ``1.34.4``."""
    major, minor, _ = kubernetes.split(".", 2)
    text = Path(__file__).with_name("catalogue.toml").read_text()
    for key, value in (
        ("{kubernetes.major}", major),
        ("{kubernetes.minor}", minor),
        ("{kubernetes}", kubernetes),
        ("{arch}", arch()),
    ):
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


def kind_node(kubernetes: str) -> Item:
    """kind's node image for a Kubernetes version."""
    return Item("image", f"docker.io/kindest/node:v{kubernetes}")


def beside(catalogue: Catalogue, kubernetes: Iterable[str]) -> Catalogue:
    """The catalogue with the image of further Kubernetes versions, which run in tenants.

    Each is a recipe of its own, ``kubernetes-1.33.13``, of the programs in that image only: nothing of what the nodes
    are made of changes, and its builds lie beside theirs. A version that is there already stays as it is.
    """
    for version in dict.fromkeys(kubernetes):
        reference = _TENANT_IMAGE.replace("{kubernetes}", version)
        if reference in catalogue.images:
            continue
        other = load(version)
        row, whole = other.images[reference], other.go["kubernetes"]
        own, name = "go:kubernetes/", f"kubernetes-{version}"
        programs = [target.removeprefix(own) for target in row.files.values() if target.startswith(own)]
        recipe = replace(whole, name=name, programs={program: whole.programs[program] for program in programs})
        files = {inside: target.replace(own, f"go:{name}/") for inside, target in row.files.items()}
        catalogue = replace(
            catalogue,
            go={**catalogue.go, name: recipe},
            images={**catalogue.images, reference: replace(row, files=files)},
        )
    return catalogue


def _row(cls: type[Row], row: dict[str, Any]) -> Row:
    """Make a frozen row; lists become tuples."""
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})
