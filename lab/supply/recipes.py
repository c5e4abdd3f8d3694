"""Builds images and charts, and computes their paths in the cache."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab import sums
from lab.errors import LabError
from lab.paths import assets
from lab.supply import debian, gomod, node_rootfs, watch_image
from lab.supply.archive import layer_from_files, write_image
from lab.supply.cache import Progress, key_of, making, place, replacing, scratch
from lab.supply.catalogue import BinaryRow, Catalogue, ChartRow, ImageRow, Item, go_program
from lab.tools.go import STATIC, Go
from lab.tools.process import Runner


@dataclass(frozen=True)
class Compiled:
    """A program built from source in this repository.

    Attributes:
        source: its C file, or the folder of its Go module, below kind/.
        inside: its path in the image.
        tool: ``cc`` or ``go``.
        flags: of the C compiler, or of Go's linker.
        links: symbolic links to it in the image.
    """

    source: str
    inside: str
    tool: str
    flags: tuple[str, ...]
    links: dict[str, str] = field(default_factory=dict)


COMPILED = {
    "pause": Compiled("node/pause.c", "/pause", "cc", ("-std=gnu11", "-Os", "-Wall", "-Wextra", "-s", "-static")),
    # Also as vllm, for Deployments with vLLM's command line.
    "probe": Compiled("probe", "/usr/bin/probe", "go", ("-s", "-w"), {"/usr/bin/vllm": "probe"}),
}
"""By the recipe of the image."""


def fetched(item: Item, version: str, catalogue: Catalogue) -> Path:
    """Path of a downloaded item; another pin is another path, so what is there was checked against its pin."""
    pins = filter(None, [catalogue.pin(item, version)])
    return place(f"fetched-{item.kind}", item.name, key_of(item.kind, item.name, version, *pins))


def programs_of(row: BinaryRow, catalogue: Catalogue) -> Path:
    """Path of a built binary; a folder if the row names all programs of its recipe."""
    recipe, program = go_program(row.build)
    folder = gomod.folder_of(catalogue.go[recipe])
    return folder if program == "*" else folder / program


def archive_path(row: ImageRow, catalogue: Catalogue) -> Path | None:
    """Path of a built image's archive; None without a recipe."""
    if row.recipe == "none":
        return None
    recipes = {go_program(target)[0] for target in row.files.values()}
    parts: list[object] = [asdict(row), [asdict(catalogue.go[name]) for name in sorted(recipes)]]
    parts += [asdict(catalogue.debs[name]) for name in row.layers]
    if row.recipe == "node":
        parts += node_rootfs.inputs(catalogue)
    if row.recipe == "watch":
        parts += watch_image.inputs(catalogue)
    if row.recipe in COMPILED:
        source = assets("kind") / COMPILED[row.recipe].source
        sources = sorted(source.iterdir()) if source.is_dir() else [source]
        parts += [COMPILED[row.recipe].flags, {path.name: path.read_text() for path in sources}]
    return place("images", f"{row.reference}.tar", key_of(parts))


def chart_path(row: ChartRow) -> Path:
    """Path of a built chart."""
    return place("charts", f"{row.name}.tgz", key_of(asdict(row)))


def cached(item: Item, version: str, catalogue: Catalogue) -> tuple[Path | None, str]:
    """Path of an item in the cache, downloaded or built; or None, and why one that is there cannot be used."""
    entries = [(fetched(item, version, catalogue),) * 2]
    if item.kind == "binary":
        row = catalogue.binaries[item.name]
        entries.append((gomod.folder_of(catalogue.go[go_program(row.build)[0]]), programs_of(row, catalogue)))
    elif item.kind == "image":
        if built := archive_path(catalogue.image(item.name), catalogue):
            entries.append((built, built))
    elif chart := catalogue.chart(item.name, version):
        entries.append((chart_path(chart),) * 2)
    damaged = []
    for entry, path in entries:
        if path.exists():
            if not (why := sums.damage(entry)):
                return path, ""
            damaged.append(f"{entry} is damaged: {why}")
    return None, "; ".join(damaged)


def make_image(row: ImageRow, catalogue: Catalogue, run: Runner, progress: Progress) -> Path:
    """Build an image's archive and all its parts, once. Raises CommandFailed, LabError."""
    target = archive_path(row, catalogue)
    if target is None:
        raise LabError(f"image {row.reference} has no recipe")
    with making(target, run, progress) as needed:
        if not needed:
            return target
        if row.recipe == "node":
            return node_rootfs.make(row, catalogue, target, run, progress)
        if row.recipe == "watch":
            return watch_image.make(row, catalogue, target, run, progress)
        layers = [debian.layer(catalogue.debs[name], run) for name in row.layers]
        files: dict[str, Path] = {}
        for inside, source in row.files.items():
            recipe, program = go_program(source)
            files[inside] = gomod.build(catalogue.go[recipe], run, progress) / program
        progress(f"image {row.reference}", None, None)
        with scratch(target) as folder:
            links: dict[str, str] = {}
            if row.recipe in COMPILED:
                inside, links = COMPILED[row.recipe].inside, COMPILED[row.recipe].links
                files[inside] = compile_into(folder, row.recipe, run)
            if files:
                layers.append(layer_from_files(folder / "files.tar", files, links, bind_ports=row.bind_ports))
            write_image(target, row.reference, layers, entrypoint=row.entrypoint, user=row.user)
    return target


def make_chart(row: ChartRow, catalogue: Catalogue, helm: Path, run: Runner) -> Path:
    """Package a chart from its folder in a Go module, with the released version. Raises CommandFailed."""
    target = chart_path(row)
    with making(target, run) as needed:
        if needed:
            recipe = catalogue.go[row.build["recipe"]]
            source = Go(run).download(recipe.module, recipe.version) / row.build["folder"]
            with scratch(target) as folder:
                copy = folder / row.name
                shutil.copytree(source, copy, copy_function=shutil.copyfile)
                run.run([helm, "package", copy, "--version", row.version, "--app-version", row.version, "-d", folder])
                with replacing(target) as temporary:
                    shutil.copyfile(next(folder.glob("*.tgz")), temporary)
    return target


def compile_into(folder: Path, recipe: str, run: Runner) -> Path:
    """Compile a recipe's program with this machine's C compiler or go command. Raises CommandFailed."""
    compiled = COMPILED[recipe]
    source, program = assets("kind") / compiled.source, folder / Path(compiled.inside).name
    temporary = {"TMPDIR": str(folder)}  # compilers remove their files, but not when they are killed
    if compiled.tool == "go":
        Go(run).build(source, program, ["."], env={**STATIC, **temporary}, ldflags=" ".join(compiled.flags))
    else:
        compiler = next((cc for cc in ("cc", "gcc", "clang") if run.which(cc)), "cc")
        run.run([compiler, *compiled.flags, "-o", program, source], env=temporary)
    return program
