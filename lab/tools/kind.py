"""Facade over the kind command."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from lab.errors import CommandFailed
from lab.tools.process import OnLine, Runner

_AGAIN = re.compile(
    r"node\(s\) already exist for a cluster|container name \S+ is already in use"
    r"|network \S+ not found|network \S+ is ambiguous"
)
"""kind's message about nodes that exist when it starts, and an engine's about one that appears later; those about
kind's network, which the last of other labs has removed after kind had found it, or of which another kind that started
at once has created a second one: kind removes that when it starts again."""


class Kind:
    """kind, with a named cluster and the lab's own kubeconfig in every call. Methods raise CommandFailed."""

    def __init__(self, run: Runner, binary: Path, engine: str = "docker") -> None:
        self._run = run
        self.binary = binary
        self._env = {"KIND_EXPERIMENTAL_PROVIDER": engine}

    def create(
        self,
        name: str,
        config: str,
        image: str,
        kubeconfig: Path,
        on_line: OnLine | None = None,
        *,
        again: Callable[[], object] = lambda: None,
    ) -> None:
        """Create a cluster from a kind configuration (YAML); after a failure its containers remain for inspection.

        The engine's command that creates a node survives a kind that was killed. If its node appears during this
        creation, or kind's network disappears, the cluster is deleted and created once more. ``again`` is called before
        that, and raises if the node belongs to somebody else.
        """
        argv: list[str | Path] = [self.binary, "create", "cluster", "--name", name, "--image", image]
        argv += ["--config", "-", "--kubeconfig", kubeconfig, "--retain"]
        for last in (False, True):
            try:
                self._run.run(argv, stdin=config, env=self._env, on_line=on_line, timeout=900)
            except CommandFailed as error:
                if last or not _AGAIN.search(error.out + error.err):
                    raise
                again()
                self.delete(name, kubeconfig)
            else:
                return

    def delete(self, name: str, kubeconfig: Path) -> None:
        """Delete a cluster; ignore a missing one."""
        self._run.run([self.binary, "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig], env=self._env)

    def export(self, name: str, kubeconfig: Path) -> None:
        """Write a running cluster's kubeconfig, for its owner only; kind prints no secret meanwhile."""
        argv: list[str | Path] = [self.binary, "export", "kubeconfig", "--name", name, "--kubeconfig", kubeconfig]
        self._run.run(argv, env=self._env)
