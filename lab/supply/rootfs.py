"""Root file systems of Debian, the base of images that need an operating system."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from lab.errors import HostNotReady
from lab.supply.cache import Progress, key_of, making, place, replacing, scratch
from lab.supply.catalogue import RootfsRecipe
from lab.tools.debian import Debian, bootstrap_packages
from lab.tools.process import Runner

# Documentation and caches, useless in a container and half of its files.
_DROP = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache/apt", "var/lib/apt/lists")


def rootfs(recipe: RootfsRecipe, settle: Callable[[Path, Runner], None], run: Runner, progress: Progress) -> Path:
    """The root file system as a tar, made once; ``settle`` changes the new one before it is packed.

    Raises CommandFailed (debootstrap needs root), HostNotReady.
    """
    target = place("rootfs", f"{recipe.name}.tar", key_of(asdict(recipe), 1))
    with making(target, run, progress) as needed:
        if needed:
            debian = Debian(run)
            if missing := " ".join(bootstrap_packages(run.which("debootstrap"))):
                raise HostNotReady(
                    f"the {recipe.name} image cannot be built: {missing} not installed",
                    fix=f"run 'kailab up', which installs it as a change that 'kailab down --host' undoes,"
                    f" or apt-get install -y --no-install-recommends {missing}",
                )
            with scratch(target) as folder:
                root = folder / "root"

                def line(text: str) -> None:
                    if text.startswith("I: "):
                        progress(f"Debian {recipe.suite}: {text[3:60]}", None, None)

                debian.bootstrap(recipe.suite, recipe.packages, root, line)
                for useless in _DROP:
                    shutil.rmtree(root / useless, ignore_errors=True)
                    (root / useless).mkdir(parents=True)
                settle(root, run)
                with replacing(target) as temporary:
                    run.run(["tar", "-C", root, "--sort=name", "--numeric-owner", "--mtime=@0", "-cf", temporary, "."])
    return target
