"""The supply of one lab: chooses the source of each item and brings items into the cache."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lab.config import LabSpec
from lab.errors import CommandFailed, LabError, Unavailable
from lab.kai.names import KAI_CHART
from lab.supply import debian, download, gomod, recipes, registry
from lab.supply.bundle import MADE, Bundle, Entry, installed, unpacked
from lab.supply.cache import Progress, making, replacing, scratch, silent
from lab.supply.catalogue import (
    BinaryRow,
    ChartRow,
    Item,
    chart_version,
    go_program,
    kind_node,
    load,
    ready_node,
    with_tenant_images,
)
from lab.supply.published import published
from lab.supply.resolve import Choice, Chooser, wanted_version
from lab.tools.container import ContainerEngine
from lab.tools.process import Runner


class Supply:
    """Locates items on this machine, and downloads or builds them if needed.

    The engine is not used before it runs (``engine_runs``).
    """

    def __init__(self, spec: LabSpec, run: Runner, engine: ContainerEngine, *, engine_runs: bool = True) -> None:
        self.spec = spec
        self.run = run
        self.engine = engine
        self.engine_runs = engine_runs
        vclusters = [tenant.vcluster for tenant in spec.tenants]
        kubernetes = [tenant.kubernetes for tenant in spec.tenants]
        catalogue = with_tenant_images(load(spec.cluster.kubernetes), kubernetes, vclusters)
        self.catalogue = replace(catalogue, pins={**catalogue.pins, **published().pins, **spec.supply.pins})
        self.mirrors = {**published().mirrors, **spec.supply.mirrors}
        self.versions = {
            **{name: row.version for name, row in self.catalogue.binaries.items()},
            KAI_CHART: chart_version(KAI_CHART, spec.kai.version),
            "vcluster": vclusters[0] if vclusters else self.catalogue.charts["vcluster"].version,
        }
        self.choices: dict[Item, Choice] = {}

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """The lab file's bundle and those in the cache, read on first use. Raises LabError for an unreadable one."""
        named = (Bundle.open(self.spec.supply.bundle.expanduser()),) if self.spec.supply.bundle else ()
        return (*named, *installed())

    def choose(self, items: Iterable[Item]) -> dict[Item, Choice]:
        """Choose the sources of items, once each, so that ``path`` does what the plan shows."""
        canonical = {item: self.item(item.kind, item.name, item.version) for item in items}
        new = [item for item in dict.fromkeys(canonical.values()) if item not in self.choices]
        self._choose(new)
        return {item: self.choices[same] for item, same in canonical.items()}

    def _choose(self, items: Iterable[Item]) -> None:
        engine = self.engine if self.engine_runs else None
        sources, mirrors = self.spec.supply.sources, self.mirrors
        chooser = Chooser(self.catalogue, sources, mirrors, self.bundles, self.versions, self.run, engine)
        self.choices.update(chooser.choose(items))

    def item(self, kind: str, name: str, version: str = "") -> Item:
        """An item in canonical form: without a version if it is the lab file's."""
        version = chart_version(name, version)
        return Item(kind, name, "" if version == self.versions.get(name) else version)

    def wanted(self, item: Item) -> str:
        """The version of a chart or binary; empty for an image, whose name contains it."""
        return wanted_version(item, self.versions)

    def has(self, kind: str, name: str, version: str = "") -> bool:
        return self._choice(self.item(kind, name, version)).available

    def at_hand(self, kind: str, name: str, version: str = "") -> bool:
        """Whether an item is on this machine, so that ``path`` neither downloads nor builds it."""
        item = self.item(kind, name, version)
        return self._choice(item).source in ("present", "bundle") or self._cached(item) is not None

    def binary(self, name: str) -> Path:
        """A program on this machine. Raises Unavailable, CommandFailed."""
        return self.path(Item("binary", name))

    def image(self, reference: str) -> Path:
        """An image archive on this machine. Raises Unavailable, CommandFailed."""
        return self.path(Item("image", reference))

    def chart(self, name: str, version: str = "") -> Path:
        """A chart's .tgz on this machine, by default in the lab file's version. Raises Unavailable, CommandFailed."""
        return self.path(self.item("chart", name, version))

    def path(self, item: Item, progress: Progress = silent) -> Path:
        """Bring an item into the cache and return its path.

        Raises Unavailable with the sources that were tried, or CommandFailed if the build or download fails.
        """
        choice = self._choice(item)
        match choice.source:
            case "none":
                raise Unavailable(f"{item} is not available", evidence=choice.why, fix=choice.fix)
            case "present":
                return self._present(item, choice, progress)
            case "bundle":
                return self._from_bundle(item)
            case "registry":
                return self._from_registry(item, choice, progress)
            case _:
                return self._build(item, progress)

    def _choice(self, item: Item) -> Choice:
        return self.choose([item])[item]

    def _present(self, item: Item, choice: Choice, progress: Progress) -> Path:
        if path := self._cached(item):
            return path
        if choice.where != "cache":
            if item.kind != "image":
                return Path(choice.where)
            target = recipes.fetched(item, "", self.catalogue)
            try:
                with making(target, self.run, progress) as needed:
                    return registry.save(item.name, self.engine, target) if needed else target
            except CommandFailed:
                if self.engine.image_id(item.name) is not None:
                    raise
        # it was removed, or damaged, after the plan
        self._choose([item])
        return self.path(item, progress)

    def _cached(self, item: Item) -> Path | None:
        return recipes.cached(item, self.wanted(item), self.catalogue)[0]

    def _bundled(self, item: Item) -> tuple[Bundle, Entry] | None:
        version = self.wanted(item)
        found = ((bundle, entry) for bundle in self.bundles if (entry := bundle.find(item, version)))
        return next(((bundle, entry) for bundle, entry in found if not bundle.incomplete(entry)), None)

    def _from_bundle(self, item: Item) -> Path:
        found = self._bundled(item)
        if found is None:
            raise Unavailable(
                f"{item} was in a bundle at the time of the plan but is gone", fix="run the command again"
            )
        bundle, entry = found
        path = bundle.trusted(entry)
        if item.kind == "binary":
            if self.catalogue.binaries[item.name].build.endswith("/*"):
                return unpacked(path)
            if not os.access(path, os.X_OK):
                try:
                    path.chmod(0o755)
                except OSError as error:
                    fix = f"copy {bundle.root} to a disk that you can write, and set supply.bundle"
                    raise LabError(f"{path} cannot be made executable: {error.strerror}", fix=fix) from error
        return path

    def bundled_folder(self, item: Item) -> Path | None:
        """A folder that a bundle has as a tar, unpacked; None without one, or if bundles are not a source."""
        found = self._bundled(item) if "bundle" in self.spec.supply.sources else None
        return unpacked(found[0].trusted(found[1])) if found else None

    def _from_registry(self, item: Item, choice: Choice, progress: Progress) -> Path:
        version = self.wanted(item)
        target = recipes.fetched(item, version, self.catalogue)
        with making(target, self.run, progress) as needed:
            if not needed:
                return target
            progress(f"downloading {choice.where}", None, None)
            pin = self.catalogue.pin(item, version)
            if item.kind == "image":
                return registry.fetch(item.name, self.mirrors, self.engine, target, pin)
            if choice.where.startswith("oci://"):
                return registry.pull_chart(self.binary("helm"), choice.where, version, self.run, target, pin)
            options: dict[str, Any] = {"mode": 0o644}
            if item.kind == "binary":
                row = self.catalogue.binaries[item.name]
                if row.packages:
                    return self._from_packages(row, target, progress)
                checksum = registry.mirrored_url(row.checksum, self.mirrors)
                options = {"checksum_url": checksum, "member": row.member}
            stopped = self.run.stopped
            return download.fetch(choice.where, target, pin=pin, progress=progress, stopped=stopped, **options)

    def _from_packages(self, row: BinaryRow, target: Path, progress: Progress) -> Path:
        """Download the Debian packages of a binary, and unpack the programs of its recipe into ``target``."""
        names = self.catalogue.go[go_program(row.build)[0]].programs
        with replacing(target) as folder, scratch(target) as packages:
            folder.mkdir()
            for url in row.packages:
                file, stopped = packages / url.rpartition("/")[2], self.run.stopped
                where, pin = registry.mirrored_url(url, self.mirrors), self.catalogue.pins.get(url, "")
                download.fetch(where, file, pin=pin, progress=progress, stopped=stopped)
                debian.unpack_programs(file, names, folder)
            if missing := [name for name in names if not (folder / name).exists()]:
                raise Unavailable(f"{row.packages[0]} has no {missing[0]}", fix="report it: kailab expects the program")
        return target

    def _build(self, item: Item, progress: Progress) -> Path:
        if item.kind == "image":
            return recipes.make_image(self.catalogue.image(item.name), self.catalogue, self.run, progress)
        if item.kind == "chart":
            return recipes.make_chart(self._chart_row(item), self.catalogue, self.binary("helm"), self.run)
        row = self.catalogue.binaries[item.name]
        gomod.build(self.catalogue.go[go_program(row.build)[0]], self.run, progress)
        return recipes.programs_of(row, self.catalogue)

    def identity(self, item: Item) -> str:
        """A name for the item's content, known before it is downloaded or built: equal names mean equal content."""
        source = self._choice(item).source
        if source == "bundle":
            found = self._bundled(item)
            return found[1].sha256 if found else item.name
        if item.kind == "image":
            built = recipes.archive_path(self.catalogue.image(item.name), self.catalogue)
            if built is not None and (source == "build" or (source == "present" and self._cached(item) == built)):
                return built.name
        released = recipes.fetched(item, self.wanted(item), self.catalogue)
        if item.kind == "binary" and (source == "build" or self._cached(item) not in (None, released)):
            return recipes.programs_of(self.catalogue.binaries[item.name], self.catalogue).name
        return released.name

    def made_here(self, item: Item) -> bool:
        """Whether an image is built by the catalogue's recipe and does not come from a registry."""
        source = self._choice(item).source
        if source == "bundle":
            found = self._bundled(item)
            return found is not None and found[1].version == MADE
        return source == "build" or (
            source == "present" and self._cached(item) != recipes.fetched(item, "", self.catalogue)
        )

    @property
    def base_node(self) -> Item:
        """The node image to start from: kind's; or kailab's, if it is published and kind's would have to be built."""
        kind, ready = (of(self.spec.cluster.kubernetes) for of in (kind_node, ready_node))
        found = self.choose([kind, ready])
        return ready if found[kind].source in ("build", "none") and found[ready].available else kind

    @property
    def ready_node(self) -> bool:
        """Whether the nodes start from kailab's own image, which has NVIDIA's container toolkit."""
        return self.base_node == ready_node(self.spec.cluster.kubernetes)

    @property
    def own_node(self) -> bool:
        """Whether the node image is made by kailab: then it has neither kindnet nor the control plane's images."""
        return self.ready_node or self.made_here(kind_node(self.spec.cluster.kubernetes))

    def recipe_of(self, item: Item) -> str:
        """Name of what a build of the item starts with: the Go recipe of its first program, ``node`` or ``debian``."""
        if item.kind == "binary":
            return go_program(self.catalogue.binaries[item.name].build)[0]
        if item.kind == "chart":
            return self._chart_row(item).build["recipe"]
        row = self.catalogue.image(item.name)
        if row.recipe != "files":
            return row.recipe
        return next((go_program(target)[0] for target in row.files.values()), "debian")

    def _chart_row(self, item: Item) -> ChartRow:
        row = self.catalogue.chart(item.name, self.wanted(item))
        if row is None:
            raise Unavailable(f"{item} is not in the catalogue", fix="use a chart that kailab knows")
        return row
