"""Makes images and charts from what was built, and knows where each lies in the cache."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.errors import LabError
from lab.paths import assets
from lab.supply import debian, gomod, node_rootfs
from lab.supply.archive import layer_from_files, write_image
from lab.supply.cache import key_of, making, place, replacing
from lab.supply.catalogue import BinaryRow, Catalogue, ChartRow, ImageRow, Item
from lab.tools.go import STATIC, Go
from lab.tools.process import Runner

Progress = Callable[[str, int | None, int | None], None]


@dataclass(frozen=True)
class Compiled:
    """A program whose source is here.

    Attributes:
        source: its C file, or the folder of its Go module, under kind/.
        inside: where it lies in the image.
        tool: ``cc`` or ``go``.
        flags: of the C compiler, or of Go's linker.
        links: further links to it in the image.
    """

    source: str
    inside: str
    tool: str
    flags: tuple[str, ...]
    links: dict[str, str] = field(default_factory=dict)


COMPILED = {
    "pause": Compiled("node/pause.c", "/pause", "cc", ("-std=gnu11", "-Os", "-Wall", "-Wextra", "-s", "-static")),
    # Also as vllm: the command line of a vLLM Deployment then starts it.
    "probe": Compiled("probe", "/usr/bin/probe", "go", ("-s", "-w"), {"/usr/bin/vllm": "probe"}),
}
"""By the recipe of the image."""


def fetched(item: Item, version: str) -> Path:
    """Where a downloaded or pulled item lies."""
    return place(f"fetched-{item.kind}", item.name, key_of(item.kind, item.name, version))


def programs_of(row: BinaryRow, catalogue: Catalogue) -> Path:
    """Where a binary lies once its recipe is built; a folder when the row names all programs of the recipe."""
    recipe, _, program = row.build.removeprefix("go:").partition("/")
    folder = gomod.folder_of(catalogue.go[recipe])
    return folder if program == "*" else folder / program


def archive_path(row: ImageRow, catalogue: Catalogue) -> Path | None:
    """Where the archive of an image with a recipe lies; None for one without."""
    if row.recipe == "none":
        return None
    recipes = {target.removeprefix("go:").split("/")[0] for target in row.files.values()}
    parts: list[object] = [asdict(row), [asdict(catalogue.go[name]) for name in sorted(recipes)]]
    parts += [asdict(catalogue.debs[name]) for name in row.layers]
    if row.recipe == "node":
        parts += node_rootfs.inputs(catalogue)
    if row.recipe in COMPILED:
        parts += [COMPILED[row.recipe].flags, {path.name: path.read_text() for path in _sources(row.recipe)}]
    return place("images", f"{row.reference}.tar", key_of(parts))


def chart_path(row: ChartRow) -> Path:
    """Where a chart packaged from a Go module lies."""
    return place("charts", f"{row.name}.tgz", key_of(asdict(row)))


def make_image(row: ImageRow, catalogue: Catalogue, run: Runner, progress: Progress) -> Path:
    """Build an image's archive with all it needs; made once. Raises CommandFailed, LabError."""
    target = archive_path(row, catalogue)
    if target is None:
        raise LabError(f"image {row.reference} has no recipe")
    with making(target, run, progress) as needed:
        if not needed:
            return target
        if row.recipe == "node":
            return node_rootfs.make(row, catalogue, target, run, progress)
        layers = [debian.layer(catalogue.debs[name], run) for name in row.layers]
        files: dict[str, Path] = {}
        for inside, source in row.files.items():
            recipe, _, program = source.removeprefix("go:").partition("/")
            files[inside] = gomod.build(catalogue.go[recipe], run, progress) / program
        progress(f"image {row.reference}", None, None)
        with tempfile.TemporaryDirectory(prefix="kailab-image-", dir=_beside(target)) as folder:
            links: dict[str, str] = {}
            if row.recipe in COMPILED:
                inside, links = COMPILED[row.recipe].inside, COMPILED[row.recipe].links
                files[inside] = compile_into(Path(folder), row.recipe, run)
            if files:
                layers.append(layer_from_files(Path(folder, "files.tar"), files, links, bind_ports=row.bind_ports))
            write_image(target, row.reference, layers, entrypoint=row.entrypoint, user=row.user)
    return target


def make_chart(row: ChartRow, catalogue: Catalogue, helm: Path, run: Runner) -> Path:
    """Package a chart from its folder in a Go module, with the released version. Raises CommandFailed."""
    target = chart_path(row)
    with making(target, run) as needed:
        if needed:
            recipe = catalogue.go[row.build["recipe"]]
            source = Go(run).download(recipe.module, recipe.version) / row.build["folder"]
            with tempfile.TemporaryDirectory(prefix="kailab-chart-") as folder:
                copy = Path(folder, row.name)
                shutil.copytree(source, copy, copy_function=shutil.copyfile)
                run.run([helm, "package", copy, "--version", row.version, "--app-version", row.version, "-d", folder])
                with replacing(target) as temporary:
                    shutil.copyfile(next(Path(folder).glob("*.tgz")), temporary)
    return target


def compile_into(folder: Path, recipe: str, run: Runner) -> Path:
    """Compile a recipe's program with this machine's C compiler, or its go command. Raises CommandFailed."""
    made = COMPILED[recipe]
    source, program = assets("kind") / made.source, folder / Path(made.inside).name
    if made.tool == "go":
        Go(run).build(source, program, ["."], env=STATIC, ldflags=" ".join(made.flags))
    else:
        compiler = next((cc for cc in ("cc", "gcc", "clang") if run.which(cc)), "cc")
        run.run([compiler, *made.flags, "-o", program, source])
    return program


def _sources(recipe: str) -> list[Path]:
    where = assets("kind") / COMPILED[recipe].source
    return sorted(where.iterdir()) if where.is_dir() else [where]


def _beside(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.parent
