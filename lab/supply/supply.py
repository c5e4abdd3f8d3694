"""The supply of one lab: knows where each item comes from and brings it into the cache."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from lab.config import LabSpec
from lab.errors import CommandFailed, Unavailable
from lab.kai.names import KAI_CHART
from lab.supply import download, gomod, recipes, registry
from lab.supply.bundle import MADE, Bundle, installed, unpacked
from lab.supply.cache import making
from lab.supply.catalogue import ChartRow, Item, beside, chart_version, kind_node, load
from lab.supply.recipes import Progress
from lab.supply.resolve import Choice, Chooser, wanted_version
from lab.tools.container import ContainerEngine
from lab.tools.process import Runner


def _silent(text: str, done: int | None, total: int | None) -> None:
    """Progress for those who do not look."""


class Supply:
    """Answers where an item lies on this machine, and fetches or builds it where needed.

    Args:
        spec: the lab file.
        run: how commands are run.
        engine: the container engine.
        engine_runs: whether it runs already; before that nothing is asked of it.
    """

    def __init__(self, spec: LabSpec, run: Runner, engine: ContainerEngine, *, engine_runs: bool = True) -> None:
        self.spec = spec
        self.run = run
        self.engine = engine
        self.engine_runs = engine_runs
        self.catalogue = beside(load(spec.cluster.kubernetes), [tenant.kubernetes for tenant in spec.tenants])
        self.mirrors = dict(spec.supply.mirrors)
        vclusters = [tenant.vcluster for tenant in spec.tenants]
        self.versions = {
            **{name: row.version for name, row in self.catalogue.binaries.items()},
            KAI_CHART: chart_version(KAI_CHART, spec.kai.version),
            "vcluster": vclusters[0] if vclusters else self.catalogue.charts["vcluster"].version,
        }
        self.choices: dict[Item, Choice] = {}

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """The lab file's bundle and those in the cache; read when first asked for: 'lab down' needs none.

        Raises:
            LabError: one of them cannot be read.
        """
        named = (Bundle.open(self.spec.supply.bundle.expanduser()),) if self.spec.supply.bundle else ()
        return (*named, *installed())

    def choose(self, items: Iterable[Item]) -> dict[Item, Choice]:
        """Decide where items come from; remembered, so that a later ``path`` follows what the plan said."""
        asked = {item: self.item(item.kind, item.name, item.version) for item in items}
        new = [item for item in dict.fromkeys(asked.values()) if item not in self.choices]
        self.choices.update(self._chooser().choose(new))
        return {item: self.choices[same] for item, same in asked.items()}

    def _chooser(self) -> Chooser:
        return Chooser(
            self.catalogue,
            self.spec.supply.sources,
            self.mirrors,
            self.bundles,
            self.versions,
            self.run,
            self.engine if self.engine_runs else None,
        )

    def item(self, kind: str, name: str, version: str = "") -> Item:
        """An item in one spelling only: it names no version where that is the lab file's own."""
        version = chart_version(name, version)
        return Item(kind, name, "" if version == self.versions.get(name) else version)

    def wanted(self, item: Item) -> str:
        """The version of a chart or binary that is asked for; empty for an image, whose name carries it."""
        return wanted_version(item, self.versions)

    def has(self, kind: str, name: str, version: str = "") -> bool:
        item = self.item(kind, name, version)
        return self.choose([item])[item].available

    def binary(self, name: str) -> Path:
        """A program on this machine, fetched or built if need be. Raises Unavailable, CommandFailed."""
        return self.path(Item("binary", name))

    def image(self, reference: str) -> Path:
        """An image archive on this machine. Raises Unavailable, CommandFailed."""
        return self.path(Item("image", reference))

    def chart(self, name: str, version: str = "") -> Path:
        """A chart's .tgz on this machine; without a version the lab file's. Raises Unavailable, CommandFailed."""
        return self.path(self.item("chart", name, version))

    def path(self, item: Item, progress: Progress = _silent) -> Path:
        """Bring an item into the cache and return where it lies.

        Raises:
            Unavailable: no source has it; names what was tried.
            CommandFailed: the build or download failed.
        """
        choice = self.choose([item])[item]
        match choice.source:
            case "none":
                raise Unavailable(f"{item} cannot be had", evidence=choice.why, fix=choice.fix)
            case "present":
                return self._present(item, choice, progress)
            case "bundle":
                return self._from_bundle(item)
            case "registry":
                return self._from_registry(item, choice, progress)
            case _:
                return self._build(item, progress)

    def _present(self, item: Item, choice: Choice, progress: Progress) -> Path:
        version = self.wanted(item)
        known: list[Path | None] = [recipes.fetched(item, version)]
        if item.kind == "binary":
            known.append(recipes.programs_of(self.catalogue.binaries[item.name], self.catalogue))
        elif item.kind == "image":
            known.append(recipes.archive_path(self.catalogue.image(item.name), self.catalogue))
        elif chart := self.catalogue.chart(item.name, version):
            known.append(recipes.chart_path(chart))
        for path in known:
            if path is not None and path.exists():
                return path
        if item.kind == "image":
            try:
                return registry.save(item.name, self.engine, recipes.fetched(item, ""))
            except CommandFailed:
                if self.engine.image_id(item.name) is not None:
                    raise
                # somebody removed it after the plan was made
                self.choices.update(self._chooser().choose([item]))
                return self.path(item, progress)
        return Path(choice.where)

    def _from_bundle(self, item: Item) -> Path:
        version = self.wanted(item)
        for bundle in self.bundles:
            if entry := bundle.find(item, version):
                path = bundle.trusted(entry)
                if item.kind == "binary" and self.catalogue.binaries[item.name].build.endswith("/*"):
                    return unpacked(path)
                if item.kind == "binary":
                    path.chmod(0o755)
                return path
        raise Unavailable(f"{item} was in a bundle when the plan was made and is gone", fix="run the command again")

    def _from_registry(self, item: Item, choice: Choice, progress: Progress) -> Path:
        version = self.wanted(item)
        target = recipes.fetched(item, version)
        with making(target, self.run, progress) as needed:
            if not needed:
                return target
            progress(f"fetching {choice.where}", None, None)
            if item.kind == "image":
                return registry.fetch(item.name, self.mirrors, self.engine, target)
            if item.kind == "chart":
                return registry.pull_chart(self.binary("helm"), choice.where, version, self.mirrors, self.run, target)
            row = self.catalogue.binaries[item.name]
            download.fetch(row.release, target, checksum_url=row.checksum, member=row.member)
        return target

    def _build(self, item: Item, progress: Progress) -> Path:
        if item.kind == "image":
            return recipes.make_image(self.catalogue.image(item.name), self.catalogue, self.run, progress)
        if item.kind == "chart":
            return recipes.make_chart(self._chart_row(item), self.catalogue, self.binary("helm"), self.run)
        row = self.catalogue.binaries[item.name]
        recipe = row.build.removeprefix("go:").split("/")[0]
        gomod.build(self.catalogue.go[recipe], self.run, progress)
        return recipes.programs_of(row, self.catalogue)

    def identity(self, item: Item) -> str:
        """A name for what the item will be, known before it is fetched or built: equal names mean equal content."""
        choice = self.choose([item])[item]
        if choice.source == "bundle":
            version = self.wanted(item)
            found = next((entry for bundle in self.bundles if (entry := bundle.find(item, version))), None)
            return found.sha256 if found else item.name
        made = recipes.archive_path(self.catalogue.image(item.name), self.catalogue) if item.kind == "image" else None
        if made is not None and choice.source in ("build", "present") and (choice.source == "build" or made.exists()):
            return made.name
        if item.kind == "binary":
            return recipes.programs_of(self.catalogue.binaries[item.name], self.catalogue).name
        return f"{' '.join(word for word in (item.name, item.version) if word)}@{choice.source}"

    def made_here(self, item: Item) -> bool:
        """Whether an image is what the catalogue's recipe makes, and not what a registry has under that name."""
        choice = self.choose([item])[item]
        if choice.source == "bundle":
            entry = next((found for bundle in self.bundles if (found := bundle.find(item))), None)
            return entry is not None and entry.version == MADE
        return choice.source == "build" or (choice.source == "present" and not recipes.fetched(item, "").exists())

    @property
    def own_node(self) -> bool:
        """Whether the node image is built here: then it has neither kindnet nor the control plane's images."""
        return self.made_here(kind_node(self.spec.cluster.kubernetes))

    def recipe_of(self, item: Item) -> str:
        """What is built first for an item: the Go recipe of its first program, ``node`` or ``debian``."""
        if item.kind == "binary":
            return self.catalogue.binaries[item.name].build.removeprefix("go:").split("/")[0]
        if item.kind == "chart":
            return self._chart_row(item).build["recipe"]
        row = self.catalogue.image(item.name)
        names = [source.removeprefix("go:").split("/")[0] for source in row.files.values()]
        return row.recipe if row.recipe != "files" else (names[0] if names else "debian")

    def _chart_row(self, item: Item) -> ChartRow:
        row = self.catalogue.chart(item.name, self.wanted(item))
        if row is None:
            raise Unavailable(f"{item} is in no catalogue", fix="name a chart that kailab knows")
        return row
