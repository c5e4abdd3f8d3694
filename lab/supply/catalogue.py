"""The catalogue of binaries, images and charts, and their sources (catalogue.toml)."""

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

OWN_REGISTRY = "registry.kailab.dev"
"""Registry in the names of kailab's own images; ``published`` says which registry a release has put them in."""

_VCLUSTER, _VCLUSTER_IMAGE = "vcluster", "ghcr.io/loft-sh/vcluster-oss"
_TENANT_IMAGE = "ghcr.io/loft-sh/kubernetes:v{kubernetes}"
"""Image with the API server, controller manager and scheduler of a tenant's vCluster."""

_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Item:
    """One thing that a lab needs; ``kind`` is binary, image or chart.

    ``version`` is empty for images, whose name contains it, and for the version that the lab file sets for the host.
    Others are explicit, such as a tenant's own KAI: ``Item("chart", "kai-scheduler", "v0.9.3")``.
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
    """An image layer of Debian packages, with extra symbolic links."""

    name: str
    packages: tuple[str, ...]
    links: dict[str, str] = field(default_factory=dict)
    applets: bool = False


@dataclass(frozen=True)
class RootfsRecipe:
    """A root file system made by debootstrap; for a node, plus the files of kind's base image from its Go module."""

    name: str
    suite: str
    packages: tuple[str, ...]
    kind_files: str = ""


@dataclass(frozen=True)
class BinaryRow:
    """A program that runs on the host, or programs for the nodes; ``packages`` are Debian packages that have them."""

    name: str
    version: str
    build: str = ""
    release: str = ""
    checksum: str = ""
    member: str = ""
    packages: tuple[str, ...] = ()
    version_args: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImageRow:
    """A container image. ``in_node``: a released node image contains it; ``local``: only kailab's releases have it."""

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
    """A Helm chart, from a URL or an OCI repository, or built from a folder of a Go module."""

    name: str
    version: str
    url: str = ""
    oci: str = ""
    build: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Catalogue:
    """All rows for the Kubernetes version of the nodes, and images of other versions for tenants."""

    go: dict[str, GoRecipe]
    debs: dict[str, DebLayer]
    rootfs: dict[str, RootfsRecipe]
    binaries: dict[str, BinaryRow]
    images: dict[str, ImageRow]
    charts: dict[str, ChartRow]
    pins: dict[str, str] = field(default_factory=dict)
    """sha256 of a file by its address, digest of an image by its reference; an empty one counts as missing."""
    seconds: dict[str, int] = field(default_factory=dict)
    """Measured duration of a build by its recipe."""

    def image(self, reference: str) -> ImageRow:
        """The row of an image; other images come from an engine, a bundle or a registry only."""
        return self.images.get(reference) or ImageRow(reference, recipe="none")

    def chart(self, name: str, version: str = "") -> ChartRow | None:
        """The row of a chart for a version, with that version's address; None for an unknown chart.

        KAI's charts moved to another registry, so their address depends on the version line. Another version than that
        in the table is built from a Go module if it has a recipe of its own; see ``with_tenant_images``.
        """
        row = self.charts.get(name)
        if row is None:
            return None
        version = version or row.version
        if name == KAI_CHART:
            return replace(row, version=version, oci=_kai_address(version))
        if version == row.version:
            return row
        recipe = f"{name}-{version}"
        build = {**row.build, "recipe": recipe} if recipe in self.go else {}
        return replace(row, version=version, url=row.url.replace(row.version, version), build=build)

    def address(self, item: Item, version: str) -> str:
        """The reference of an image; the address of a binary or chart, empty if nobody publishes it."""
        if item.kind == "image":
            return item.name
        if item.kind == "binary":
            row = self.binaries[item.name]
            return next(iter(row.packages), row.release)
        chart = self.chart(item.name, version)
        return (chart.oci or chart.url) if chart else ""

    def pin(self, item: Item, version: str) -> str:
        """What an item must be: digest of an image, sha256 of a file; empty if nobody confirmed one.

        Of a binary from several packages it is that of the first; ``pins`` has the others.
        """
        address = self.address(item, version)
        sha256 = self.pins.get(f"{address}:{version}" if address.startswith("oci://") else address, "")
        return f"sha256:{sha256.removeprefix('sha256:')}" if sha256 and item.kind == "image" else sha256[-64:]


def chart_version(name: str, version: str) -> str:
    """A version as the chart spells it: KAI's versions start with v."""
    return f"v{version.removeprefix('v')}" if version and name == KAI_CHART else version


def _kai_address(version: str) -> str:
    try:
        return line_of(version.removeprefix("v")).chart
    except SpecError:  # older than the first version line
        return ""


def arch() -> str:
    """This machine's architecture as container images name it."""
    return _ARCH.get(platform.machine(), platform.machine())


@functools.cache
def load(kubernetes: str, architecture: str = "") -> Catalogue:
    """Read the catalogue for a Kubernetes version such as ``1.34.4``, and for this machine's architecture."""
    major, minor, _ = kubernetes.split(".", 2)
    text = Path(__file__).with_name("catalogue.toml").read_text()
    for key, value in (
        ("{kubernetes.major}", major),
        ("{kubernetes.minor}", minor),
        ("{kubernetes}", kubernetes),
        ("{arch}", architecture or arch()),
    ):
        text = text.replace(key, value)
    data = tomllib.loads(text)
    images = [_row(ImageRow, row) for row in data["image"]]

    def named(cls: type[Row], rows: dict[str, dict[str, Any]]) -> dict[str, Row]:
        return {name: _row(cls, {"name": name, **row}) for name, row in rows.items()}

    return Catalogue(
        go=named(GoRecipe, data["go"]),
        debs=named(DebLayer, data["debs"]),
        rootfs=named(RootfsRecipe, data["rootfs"]),
        binaries={row["name"]: _row(BinaryRow, row) for row in data["binary"]},
        images={row.reference: row for row in images},
        charts={row["name"]: _row(ChartRow, row) for row in data["chart"]},
        pins=data["pins"],
        seconds=data["seconds"],
    )


def kind_node(kubernetes: str) -> Item:
    """kind's node image for a Kubernetes version."""
    return Item("image", f"docker.io/kindest/node:v{kubernetes}")


def ready_node(kubernetes: str) -> Item:
    """kailab's own node image, with NVIDIA's container toolkit, for Kubernetes versions that kind does not publish."""
    return Item("image", f"{OWN_REGISTRY}/node:v{kubernetes}")


def go_program(target: str) -> tuple[str, str]:
    """Recipe and program of a target such as ``go:kubernetes/kubelet``; ``*`` for all programs of the recipe."""
    recipe, _, program = target.removeprefix("go:").partition("/")
    return recipe, program


def with_tenant_images(catalogue: Catalogue, kubernetes: Iterable[str], vclusters: Iterable[str] = ()) -> Catalogue:
    """Add the images of further versions of Kubernetes and vCluster, which run in tenants, to a catalogue.

    Each gets its own recipe, such as ``kubernetes-1.33.13``, with the programs in that image only, so that the nodes'
    recipes and builds do not change. Versions that the catalogue has are skipped.
    """
    known = catalogue.charts[_VCLUSTER].version
    for version in dict.fromkeys(vclusters):
        if version != known:
            recipe, name = catalogue.go[_VCLUSTER], f"{_VCLUSTER}-{version}"
            row, own = catalogue.images[f"{_VCLUSTER_IMAGE}:{known}"], f"go:{_VCLUSTER}/"
            files = {inside: target.replace(own, f"go:{name}/") for inside, target in row.files.items()}
            row = replace(row, reference=f"{_VCLUSTER_IMAGE}:{version}", files=files)
            flags = recipe.ldflags.replace(known, version)
            go = {**catalogue.go, name: replace(recipe, name=name, version=f"v{version}", ldflags=flags)}
            catalogue = replace(catalogue, go=go, images={**catalogue.images, row.reference: row})
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
    """A row with tuples in place of lists."""
    return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in row.items()})
