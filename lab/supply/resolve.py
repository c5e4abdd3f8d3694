"""Chooses the source of each binary, image and chart before anything is created."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lab.supply import download, registry
from lab.supply.bundle import Bundle
from lab.supply.catalogue import OWN_REGISTRY, Catalogue, ImageRow, Item, arch, go_program
from lab.supply.recipes import COMPILED, cached
from lab.tools.container import ContainerEngine
from lab.tools.debian import Debian
from lab.tools.go import MINIMUM, Go
from lab.tools.process import Runner


@dataclass(frozen=True)
class Choice:
    """The source of an item (present, bundle, registry, build or none); ``why`` explains the sources before it.

    ``verified`` is what an item from a registry is checked against, ``size`` the bytes to download, 0 if not known.
    """

    item: Item
    source: str
    where: str
    why: tuple[str, ...] = ()
    fix: str = ""
    verified: str = ""
    size: int = 0

    @property
    def available(self) -> bool:
        return self.source != "none"

    JSON = "*item source where why fix verified? size?"


@dataclass(frozen=True)
class Chooser:
    """Chooses sources; ``versions`` are those of charts and binaries by name, for items without one."""

    catalogue: Catalogue
    sources: tuple[str, ...]
    mirrors: dict[str, str]
    bundles: tuple[Bundle, ...]
    versions: dict[str, str]
    run: Runner
    engine: ContainerEngine | None
    _toolchain: dict[str, str] = field(default_factory=dict)
    _in_engine: dict[str, str] = field(default_factory=dict)
    _sizes: dict[Item, int] = field(default_factory=dict)

    def choose(self, items: Iterable[Item]) -> dict[Item, Choice]:
        """Choose for all items in parallel, without changing anything; takes seconds."""
        items = list(dict.fromkeys(items))
        if self.engine is not None:
            ours = [item.name for item in items if self._may_be_in_engine(item)]
            self._in_engine.update(dict.fromkeys(ours, "") | self.engine.image_ids(ours))
        with ThreadPoolExecutor(8) as pool:
            return dict(zip(items, pool.map(self._choose, items), strict=True))

    def _choose(self, item: Item) -> Choice:
        why: list[str] = []
        for source in self.sources:
            found, detail = getattr(self, f"_{source}")(item)
            if found:
                verified = self._verified(item) if source == "registry" else ""
                return Choice(item, source, detail, tuple(why), verified=verified, size=self._sizes.get(item, 0))
            if detail:
                why.append(f"{source}: {detail}")
        if item.kind == "image" and self.catalogue.image(item.name).recipe != "none":
            fix = "install the missing toolchain, or use a machine or mirror that reaches the registry"
        else:
            fix = "run kailab bundle create on a machine that has it and set supply.bundle here, or set supply.mirrors"
        return Choice(item, "none", "", tuple(why), fix)

    def _present(self, item: Item) -> tuple[bool, str]:
        path, damaged = cached(item, self._version(item), self.catalogue)
        if path:
            return True, "cache"
        if item.kind == "binary":
            found, program = self._in_path(item.name)
            return found, program or damaged
        if self.engine is not None and (image := self._in_engine.get(item.name)):
            pin = self.catalogue.pin(item, "")
            if not pin or self.engine.image_id(registry.pinned(item.name, pin)) == image:
                return True, f"{self.engine.name} image store"
            return False, f"{self.engine.name} has another image of that name than the pinned {pin}"
        return False, damaged

    def _may_be_in_engine(self, item: Item) -> bool:
        """Whether the engine's image of that name is the item.

        One with a recipe may be another build. One that a bundle has comes from there: another lab that pulls it has it
        in the engine for a moment, and with another source the node image has another name.
        """
        return (
            item.kind == "image"
            and "present" in self.sources
            and self.catalogue.image(item.name).recipe == "none"
            and not cached(item, "", self.catalogue)[0]
            and not ("bundle" in self.sources and self._bundle(item)[0])
        )

    def _in_path(self, name: str) -> tuple[bool, str]:
        row = self.catalogue.binaries[name]
        program = shutil.which(name) if row.version_args else None
        if program:
            answer = self.run.run([program, *row.version_args], check=False)
            versions = answer.out.replace("v", "").split()
            lines = [line for line in answer.out.splitlines() if "gitVersion" in line]
            versions += [line.split()[-1].strip('v"') for line in lines]
            if answer.code == 0 and row.version in versions:
                return True, program
        return False, ""

    def _bundle(self, item: Item) -> tuple[bool, str]:
        incomplete = []
        for bundle in self.bundles:
            if entry := bundle.find(item, self._version(item)):
                if not (wrong := bundle.incomplete(entry)):
                    return True, str(bundle.root)
                incomplete.append(f"{bundle.path(entry)}: {wrong}")
        none = "not in any bundle" if self.bundles else "no bundle configured or installed"
        return False, "; ".join(incomplete) or none

    def _registry(self, item: Item) -> tuple[bool, str]:
        if item.kind == "image":
            if item.name.startswith(f"{OWN_REGISTRY}/") and OWN_REGISTRY not in self.mirrors:
                return False, "only releases of kailab publish it, and this is a checkout"
            source = registry.mirrored(item.name, self.mirrors)
            host = source.split("/")[0]
            if not registry.reachable(host):
                return False, f"{host} is not reachable"
            if self.engine is None:
                return True, f"{source} (not verified: no container engine is running yet)"
            pin, of = self.catalogue.pin(item, ""), arch()
            if (size := registry.size(registry.pinned(source, pin), self.engine, of)) is not None:
                self._sizes[item] = size
                return True, source
            differs = pin and registry.size(source, self.engine, of) is not None
            return False, f"{source} is not the pinned {pin}" if differs else f"{source}: missing or access denied"
        where = registry.mirrored_url(self.catalogue.address(item, self._version(item)), self.mirrors)
        if not where:
            return False, ""
        host = urlsplit(where).netloc
        if not registry.reachable(host):
            return False, f"{host} is not reachable"
        if not where.startswith("oci://"):
            packages = self.catalogue.binaries[item.name].packages if item.kind == "binary" else ()
            urls = [registry.mirrored_url(url, self.mirrors) for url in packages] or [where]
            self._sizes[item] = sum(map(download.size, urls))
        return True, where

    def _verified(self, item: Item) -> str:
        """What an item from a registry is checked against, as ``kailab plan`` prints it."""
        packages = self.catalogue.binaries[item.name].packages if item.kind == "binary" else ()
        if self.catalogue.pin(item, self._version(item)) and all(self.catalogue.pins.get(url) for url in packages):
            return "pinned"
        if item.kind == "binary" and self.catalogue.binaries[item.name].checksum:
            return "not pinned: checked against the checksum that its server publishes"
        return "not pinned: no checksum"

    def _build(self, item: Item) -> tuple[bool, str]:
        tools, inputs = self._build_needs(item)
        if not tools:
            return False, "" if item.kind == "image" else "no recipe"
        for tool in sorted(tools):
            if missing := self._missing(tool):
                return False, missing
        return True, inputs

    def _build_needs(self, item: Item) -> tuple[set[str], str]:
        """The toolchains that a build of the item needs, and its inputs."""
        if item.kind == "image":
            row = self.catalogue.image(item.name)
            return (set(), "") if row.recipe == "none" else (_image_needs(row), self._image_inputs(row))
        if item.kind == "chart":
            chart = self.catalogue.chart(item.name, self._version(item))
            if chart is None or not chart.build:
                return set(), ""
            return {"go"}, f"Go module {self.catalogue.go[chart.build['recipe']].module}"
        recipe = self.catalogue.go[go_program(self.catalogue.binaries[item.name].build)[0]]
        return {"go", "cc"} if recipe.cgo else {"go"}, f"Go module {recipe.module}@{recipe.version}"

    def _image_inputs(self, row: ImageRow) -> str:
        if row.recipe == "node":
            return "Debian packages, kind's base files, Kubernetes from Go modules"
        if row.recipe == "watch":
            return "Debian packages, this kailab"
        names = sorted({go_program(target)[0] for target in row.files.values()})
        modules = [f"Go module {self.catalogue.go[name].module}@{self.catalogue.go[name].version}" for name in names]
        return ", ".join([*modules, *(f"Debian {name}" for name in row.layers)]) or "C source"

    def _missing(self, tool: str) -> str:
        """Why a toolchain cannot be used, or an empty text."""
        if tool not in self._toolchain:
            self._toolchain[tool] = _look_up(tool, self.run)
        return self._toolchain[tool]

    def _version(self, item: Item) -> str:
        return wanted_version(item, self.versions)


def _look_up(tool: str, run: Runner) -> str:
    if tool == "debian":
        return Debian(run).usable()
    if tool == "cc":
        found = any(run.which(cc) for cc in ("cc", "gcc", "clang"))
        return "" if found else "no C compiler (apt-get install gcc libc6-dev)"
    version, minimum = Go(run).version(), f"{MINIMUM[0]}.{MINIMUM[1]}"
    if version is None:
        return f"no go command (needs go {minimum} or later)"
    return "" if version >= MINIMUM else f"go {version[0]}.{version[1]} is too old (needs {minimum} or later)"


def _image_needs(row: ImageRow) -> set[str]:
    if row.recipe == "node":
        return {"go", "cc", "debian"}
    if row.recipe == "watch":
        return {"debian"}
    needs = {"go"} if row.files else set()
    needs |= {COMPILED[row.recipe].tool} if row.recipe in COMPILED else set()
    return needs | ({"debian"} if row.layers else set())


def wanted_version(item: Item, versions: Mapping[str, str]) -> str:
    """The item's own version, or else the lab's; empty for an image, whose name contains it."""
    return item.version or versions.get(item.name, "") if item.kind != "image" else ""
