"""Façade over the go command: module downloads and builds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from lab.errors import CommandFailed
from lab.tools.process import OnLine, Runner

MINIMUM = (1, 26)
"""vCluster 0.36 and KAI 0.16 ask for go 1.26 in their go.mod."""

STATIC = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
"""The environment of a build: without C, and without what somebody has set for other work."""


class Go:
    """The go command of this machine.

    Args:
        run: how commands are run.
        binary: the go program.
    """

    def __init__(self, run: Runner, binary: str = "go") -> None:
        self._run = run
        self.binary = binary

    def version(self) -> tuple[int, int] | None:
        """Major and minor version, or None without a go command."""
        if self._run.which(self.binary) is None:
            return None
        found = re.search(r"go(\d+)\.(\d+)", self._run.run([self.binary, "version"], check=False).out)
        return (int(found[1]), int(found[2])) if found else None

    @retry(
        retry=retry_if_exception_type(CommandFailed),
        stop=stop_after_attempt(3),
        reraise=True,
        wait=wait_exponential(multiplier=2, max=20),
    )
    def download(self, module: str, version: str) -> Path:
        """Download a module into go's own cache and return its folder. Tried three times. Raises CommandFailed."""
        result = self._run.run([self.binary, "mod", "download", "-json", f"{module}@{version}"], cwd=Path("/"))
        return Path(json.loads(result.out)["Dir"])

    def packages(self, folder: Path, targets: Sequence[str], env: Mapping[str, str], mod: str) -> int:
        """How many packages a build of ``targets`` compiles at most; 0 when go cannot tell."""
        argv = [self.binary, "list", *_mod(mod), "-deps", *targets]
        result = self._run.run(argv, cwd=folder, env=env, check=False)
        return len(result.out.split()) if result.code == 0 else 0

    @retry(
        retry=retry_if_exception_type(CommandFailed),
        stop=stop_after_attempt(2),
        reraise=True,
        wait=wait_exponential(multiplier=2, max=20),
    )
    def build(
        self,
        folder: Path,
        output: Path,
        targets: Sequence[str],
        *,
        env: Mapping[str, str],
        ldflags: str,
        tags: str = "",
        mod: str = "",
        on_line: OnLine | None = None,
    ) -> None:
        """Build programs into ``output``; a network hiccup while modules are fetched is retried once.

        Raises:
            CommandFailed: the build failed.
        """
        self._run.run(
            [
                self.binary,
                "build",
                *_mod(mod),
                "-v",
                "-trimpath",
                "-buildvcs=false",
                "-ldflags",
                ldflags,
                *(["-tags", tags] if tags else []),
                "-o",
                str(output),
                *targets,
            ],
            cwd=folder,
            env=env,
            on_line=on_line,
        )


def _mod(mod: str) -> list[str]:
    return [f"-mod={mod}"] if mod else []
