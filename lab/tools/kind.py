"""Façade over the kind command."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from lab.errors import CommandFailed
from lab.tools.process import OnLine, Runner

_TAKEN = re.compile(r"node\(s\) already exist for a cluster|container name \S+ is already in use")
"""What kind says of a node that is there at first, and an engine of one that comes meanwhile."""


class Kind:
    """kind, always with a named cluster and a kubeconfig of ours: it never sees the user's.

    Args:
        run: how commands are run.
        binary: the kind program.
        engine: docker, podman or nerdctl.
    """

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
        """Create a cluster; on failure its containers stay for a look.

        The engine's command that makes a node outlives a kind that was killed. Where its node comes late, into this
        creation, it is deleted and all is created once more.

        Args:
            name: the cluster's.
            config: of kind, as YAML.
            image: the node image.
            kubeconfig: where it is written.
            on_line: called with each line that kind says.
            again: called before anything is deleted; raises where the node in the way is somebody else's.

        Raises:
            CommandFailed: kind or the engine refused.
        """
        argv: list[str | Path] = [
            self.binary,
            "create",
            "cluster",
            "--name",
            name,
            "--image",
            image,
            "--config",
            "-",
            "--kubeconfig",
            kubeconfig,
            "--retain",
        ]
        for late in (False, True):
            try:
                self._run.run(argv, stdin=config, env=self._env, on_line=on_line, timeout=900)
            except CommandFailed as error:
                if late or not _TAKEN.search(error.out + error.err):
                    raise
                again()
                self.delete(name, kubeconfig)
            else:
                return

    def delete(self, name: str, kubeconfig: Path) -> None:
        """Delete a cluster; already gone is success. Raises CommandFailed."""
        self._run.run([self.binary, "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig], env=self._env)

    def kubeconfig(self, name: str) -> str:
        """The kubeconfig of a cluster, as text. Raises CommandFailed."""
        return self._run.run([self.binary, "get", "kubeconfig", "--name", name], env=self._env).out

    def export_logs(self, name: str, into: Path, timeout: float) -> None:
        """Write all logs of the nodes to a folder. Raises CommandFailed."""
        self._run.run([self.binary, "export", "logs", into, "--name", name], env=self._env, timeout=timeout)
