"""Decides, before anything is created, where each binary, image and chart will come from."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.supply import registry
from lab.supply.bundle import Bundle
from lab.supply.catalogue import Catalogue, ImageRow, Item
from lab.supply.recipes import COMPILED, archive_path, chart_path, fetched, programs_of
from lab.tools.container import ContainerEngine
from lab.tools.debian import Debian
from lab.tools.go import MINIMUM, Go
from lab.tools.process import Runner


@dataclass(frozen=True)
class Choice:
    """Where an item comes from. ``source``: present, bundle, registry, build or none; ``why``: what was tried."""

    item: Item
    source: str
    where: str
    why: tuple[str, ...] = ()
    fix: str = ""

    @property
    def available(self) -> bool:
        return self.source != "none"

    def as_json(self) -> dict[str, Any]:
        """The item's own keys beside the others."""
        return {**vars(self.item), "source": self.source, "where": self.where, "why": self.why, "fix": self.fix}


@dataclass(frozen=True)
class Chooser:
    """Answers where items come from.

    Args:
        versions: wanted version of charts and binaries by name, for items that name none.
    """

    catalogue: Catalogue
    sources: tuple[str, ...]
    mirrors: dict[str, str]
    bundles: tuple[Bundle, ...]
    versions: dict[str, str]
    run: Runner
    engine: ContainerEngine | None
    _toolchain: dict[str, str] = field(default_factory=dict)

    def choose(self, items: Iterable[Item]) -> dict[Item, Choice]:
        """Decide for all items, in parallel; takes seconds, changes nothing."""
        items = list(dict.fromkeys(items))
        with ThreadPoolExecutor(8) as pool:
            return dict(zip(items, pool.map(self._one, items), strict=True))

    def _one(self, item: Item) -> Choice:
        why: list[str] = []
        for source in self.sources:
            found, detail = getattr(self, f"_{source}")(item)
            if found:
                return Choice(item, source, detail, tuple(why))
            if detail:
                why.append(f"{source}: {detail}")
        return Choice(item, "none", "", tuple(why), self._ways_out(item))

    def _present(self, item: Item) -> tuple[bool, str]:
        if item.kind == "binary":
            return self._present_binary(item.name)
        row = self.catalogue.image(item.name)
        for path in (fetched(item, self.version(item)), self._made(item)):
            if path is not None and path.exists():
                return True, "cache"
        engine = self.engine if item.kind == "image" and row.recipe == "none" else None
        if engine is not None and engine.image_id(item.name):
            return True, f"{engine.name} image store"
        return False, ""

    def _present_binary(self, name: str) -> tuple[bool, str]:
        row = self.catalogue.binaries[name]
        for path in (fetched(Item("binary", name), row.version), programs_of(row, self.catalogue)):
            if path.exists():
                return True, "cache"
        found = shutil.which(name) if row.version_args else None
        if found:
            answer = self.run.run([found, *row.version_args], check=False)
            if answer.code == 0 and row.version in answer.out.replace("v", "").split() + [
                line.split()[-1].strip('v"') for line in answer.out.splitlines() if "gitVersion" in line
            ]:
                return True, found
        return False, ""

    def _bundle(self, item: Item) -> tuple[bool, str]:
        for bundle in self.bundles:
            if bundle.find(item, self.version(item)):
                return True, str(bundle.root)
        return False, "in no bundle" if self.bundles else "no bundle given or installed"

    def _registry(self, item: Item) -> tuple[bool, str]:
        if item.kind == "image":
            row = self.catalogue.image(item.name)
            if row.local:
                return False, ""
            source = registry.mirrored(item.name, self.mirrors)
            host = source.split("/")[0]
            if not registry.reachable(host):
                return False, f"{host} cannot be reached"
            if self.engine is None:
                return True, f"{source} (not looked up: no container engine runs yet)"
            return (
                (True, source) if registry.exists(source, self.engine) else (False, f"{source}: not there or refused")
            )
        where = self._address(item)
        if not where:
            return False, ""
        host = registry.url_host(where)
        host = registry.without_scheme(self.mirrors.get(host, host)).split("/")[0]
        return (True, where) if registry.reachable(host) else (False, f"{host} cannot be reached")

    def _build(self, item: Item) -> tuple[bool, str]:
        needs, what = self._build_needs(item)
        if not needs:
            return False, "" if item.kind == "image" else "no recipe"
        for need in sorted(needs):
            if lacks := self._tool(need):
                return False, lacks
        return True, what

    def _build_needs(self, item: Item) -> tuple[set[str], str]:
        """Which toolchains a build of the item takes, and what it is built from."""
        if item.kind == "image":
            row = self.catalogue.image(item.name)
            if row.recipe == "none":
                return set(), ""
            return _image_needs(row), self._described(row)
        if item.kind == "chart":
            chart = self.catalogue.chart(item.name, self.version(item))
            if chart is None or not chart.build:
                return set(), ""
            return {"go"}, f"Go module {self.catalogue.go[chart.build['recipe']].module}"
        row_binary = self.catalogue.binaries[item.name]
        recipe = self.catalogue.go[row_binary.build.removeprefix("go:").split("/")[0]]
        return {"go", "cc"} if recipe.cgo else {"go"}, f"Go module {recipe.module}@{recipe.version}"

    def _described(self, row: ImageRow) -> str:
        if row.recipe == "node":
            return "Debian packages, kind's base files, Kubernetes from Go modules"
        recipes = sorted({target.removeprefix("go:").split("/")[0] for target in row.files.values()})
        modules = [f"{self.catalogue.go[name].module}@{self.catalogue.go[name].version}" for name in recipes]
        return (
            ", ".join([*(f"Go module {module}" for module in modules), *(f"Debian {name}" for name in row.layers)])
            or "C source"
        )

    def _tool(self, name: str) -> str:
        """Empty when the toolchain is here, otherwise what it lacks."""
        if name not in self._toolchain:
            self._toolchain[name] = self._look_for(name)
        return self._toolchain[name]

    def _look_for(self, name: str) -> str:
        if name == "debian":
            return Debian(self.run).usable()
        if name == "cc":
            return (
                ""
                if any(self.run.which(cc) for cc in ("cc", "gcc", "clang"))
                else "no C compiler (apt-get install gcc libc6-dev)"
            )
        version = Go(self.run).version()
        if version is None:
            return "no go command (needs go 1.26 or later)"
        return "" if version >= MINIMUM else f"go {version[0]}.{version[1]} is too old (needs 1.26 or later)"

    def _made(self, item: Item) -> Path | None:
        if item.kind == "image":
            return archive_path(self.catalogue.image(item.name), self.catalogue)
        chart = self.catalogue.chart(item.name, self.version(item))
        return chart_path(chart) if chart else None

    def version(self, item: Item) -> str:
        """The wanted version of a chart or binary; an image's version is in its name."""
        return wanted_version(item, self.versions)

    def _address(self, item: Item) -> str:
        if item.kind == "binary":
            return self.catalogue.binaries[item.name].release
        chart = self.catalogue.chart(item.name, self.version(item))
        return (chart.oci or chart.url) if chart else ""

    def _ways_out(self, item: Item) -> str:
        if item.kind == "image" and self.catalogue.image(item.name).recipe != "none":
            return "install the missing toolchain, or use a machine or mirror that reaches the registry"
        return (
            "put a kailab bundle that carries it into the cache ('lab bundle create' where it can be had),"
            " or set supply.mirrors"
        )


def _image_needs(row: ImageRow) -> set[str]:
    if row.recipe == "node":
        return {"go", "cc", "debian"}
    needs = {"go"} if row.files else set()
    needs |= {COMPILED[row.recipe].tool} if row.recipe in COMPILED else set()
    return needs | ({"debian"} if row.layers else set())


def wanted_version(item: Item, versions: Mapping[str, str]) -> str:
    """The version to ask for: the item's own, or the lab's; empty for an image, whose name carries it."""
    return item.version or versions.get(item.name, "") if item.kind != "image" else ""
