"""Writes bundles: of everything a lab needs, or of single images and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from lab import sums
from lab.config import LabSpec
from lab.errors import SpecError
from lab.gpu.simulated.nvml_build import build_library, bundle_item, library_at_hand, node_arch
from lab.operations.planning import items_needed, resolve_gpus, resolve_scheduler
from lab.session.session import Session
from lab.steps.cluster.config import has_gpus
from lab.supply import Item
from lab.supply.bundle import MADE, Bundle, create, installed


def create_bundle(
    spec: LabSpec, out: Path, images: tuple[str, ...], charts: tuple[str, ...], tell: Callable[[str], None]
) -> Bundle:
    """Fetch or build every item and write the bundle to ``out``.

    Args:
        spec: the lab file.
        out: a folder, or a tar when the name ends in ``.tar``.
        images: ``REFERENCE`` or ``REFERENCE=ARCHIVE``; with these or ``charts`` the bundle has nothing else.
        charts: ``NAME``, ``NAME@VERSION`` or ``NAME@VERSION=FILE``.
        tell: called with one line for each item.

    Raises:
        Unavailable: an item is not available from any source.
        SpecError: an argument is invalid.
        LabError: ``out`` exists or cannot be written; nothing is built then.
    """
    return create(out, _entries(spec, images, charts, tell))


def _entries(
    spec: LabSpec, images: tuple[str, ...], charts: tuple[str, ...], tell: Callable[[str], None]
) -> Iterator[tuple[Item, str, Path]]:
    """Fetch or build one item after the other."""
    supply = Session(spec, spec).supply
    for text in images:
        reference, _, archive = text.partition("=")
        yield Item("image", reference), "", _file(archive) if archive else supply.image(reference)
    for text in charts:
        name, _, archive = text.partition("=")
        name, _, version = name.partition("@")
        if archive and not version:
            raise SpecError(f"--chart {text}: a file needs a version", fix="write NAME@VERSION=FILE")
        item = supply.item("chart", name, version)
        yield item, supply.wanted(item), _file(archive) if archive else supply.path(item)
    if images or charts:
        return
    spec, no_kai = resolve_scheduler(resolve_gpus(spec)[0], supply)
    if no_kai:
        tell(f"without KAI: {no_kai}")
    for item in items_needed(spec, supply):
        tell(str(item))
        made = MADE if item.kind == "image" and supply.made_here(item) else ""
        version = made if item.kind == "image" else supply.wanted(item)
        yield item, version, supply.path(item)
    if spec.cluster.own and spec.gpu.mode == "simulated" and has_gpus(spec):
        item = bundle_item(node_arch())
        tell(str(item))
        yield item, item.version, (library_at_hand(supply) or build_library(supply.run)).parent


def verify_cache() -> tuple[int, list[str]]:
    """Read everything in the cache that has a sum, installed bundles included: how many, and what is wrong.

    What is wrong is made again when it is next needed. Raises LabError for an unreadable bundle.
    """
    count, damaged = sums.check_all(read=True)
    wrong = [f"{path}: {why}" for path, why in damaged.items()]
    for bundle in installed():
        count += len(bundle.entries)
        wrong += [f"{bundle.root}: {why}" for why in bundle.verify()]
    return count, wrong


def _file(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise SpecError(f"file {path} does not exist", fix="name an existing image archive or chart")
    return path
