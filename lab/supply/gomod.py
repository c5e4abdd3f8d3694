"""Builds programs from Go modules with the go command, into a folder of the cache for each recipe.

A build that was killed resumes from Go's own build cache.
"""

from __future__ import annotations

import posixpath
import shutil
import threading
import time
from dataclasses import asdict
from pathlib import Path

from lab.supply.cache import Progress, key_of, making, place, replacing, scratch
from lab.supply.catalogue import GoRecipe
from lab.tools.go import STATIC, Go
from lab.tools.process import Runner

# A go build uses all cores while compiling but only one while linking: two builds use the idle cores, more of them only
# need memory (linking kube-apiserver needs about 2 GiB).
_SLOTS = threading.Semaphore(2)


def folder_of(recipe: GoRecipe) -> Path:
    """Folder of a recipe's programs in the cache."""
    return place("go", recipe.name, key_of(asdict(recipe)))


def build(recipe: GoRecipe, run: Runner, progress: Progress) -> Path:
    """Build a recipe's programs once, and return their folder. Raises CommandFailed."""
    target = folder_of(recipe)
    with making(target, run, progress) as needed:
        if not needed:
            return target
        progress(f"{recipe.name}: waiting for a build slot", None, None)
        with _SLOTS, replacing(target) as temporary, scratch(target) as folder:
            _build_in(folder / "source", temporary, recipe, run, progress)
    return target


def _build_in(work: Path, output: Path, recipe: GoRecipe, run: Runner, progress: Progress) -> None:
    go = Go(run)
    progress(f"{recipe.name}: downloading {recipe.module}@{recipe.version}", None, None)
    source = go.download(recipe.module, recipe.version)
    if recipe.layout == "wrapper":
        work.mkdir()
        (work / "go.mod").write_text(wrapper_mod(recipe))
        targets = [posixpath.normpath(f"{recipe.module}/{package}") for package in recipe.programs.values()]
        mod = "mod"
    else:
        shutil.copytree(source, work)
        for path in (work, *work.rglob("*")):  # go's cache is read-only
            path.chmod(path.stat().st_mode | 0o200)
        targets = list(recipe.programs.values())
        mod = recipe.mod
    # go removes its temporary files, but not when it is killed
    env = {**STATIC, "TMPDIR": str(work.parent), **({"CGO_ENABLED": "1"} if recipe.cgo else {})}
    ldflags = f"-s -w {recipe.ldflags}"
    if recipe.link:
        ldflags += f" -linkmode external -extldflags {recipe.link}"
        env["CGO_LDFLAGS_ALLOW"] = ".*"
    total = go.packages(work, targets, env, mod)
    seen = 0
    start = time.monotonic()

    def line(text: str) -> None:
        nonlocal seen
        if text and not text.startswith(("go:", "#", " ")):
            seen += 1
            progress(f"{recipe.name}: {seen} of {total or '?'} packages, {time.monotonic() - start:.0f} s", seen, total)

    output.mkdir()
    into = output / next(iter(recipe.programs)) if len(targets) == 1 else output
    go.build(work, into, targets, env=env, ldflags=ldflags.strip(), tags=recipe.tags, mod=mod, on_line=line)
    missing = [name for name in recipe.programs if not (output / name).exists()]
    if missing:
        raise RuntimeError(f"{recipe.name}: go build did not produce {', '.join(missing)}")


def wrapper_mod(recipe: GoRecipe) -> str:
    """A go.mod that requires the module and pins its staging modules: v0.34.4 for v1.34.4."""
    staging = recipe.version.replace("v1.", "v0.", 1)
    pinned = [f"k8s.io/{name}" for name in recipe.staging]
    lines = [f"module kailab.build/{recipe.name}", "", "go 1.24.0", "", f"require {recipe.module} {recipe.version}"]
    lines += [f"require {name} {staging}" for name in pinned]
    lines += [f"replace {name} => {name} {staging}" for name in pinned]
    return "\n".join(lines) + "\n"
