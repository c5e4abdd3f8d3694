"""Façade over the kind command."""

from __future__ import annotations

from pathlib import Path

from lab.tools.shell import OnLine, Runner


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
        self, name: str, config: str, image: str, kubeconfig: Path, on_line: OnLine | None = None
    ) -> None:
        """Create a cluster; on failure its containers stay for a look. Raises CommandFailed."""
        self._run.run(
            [
                self.binary, "create", "cluster", "--name", name, "--image", image, "--config", "-",
                "--kubeconfig", kubeconfig, "--retain",
            ],
            stdin=config, env=self._env, on_line=on_line, timeout=900,
        )  # fmt: skip

    def delete(self, name: str, kubeconfig: Path) -> None:
        """Delete a cluster; already gone is success. Raises CommandFailed."""
        self._run.run(
            [self.binary, "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig], env=self._env
        )

    def kubeconfig(self, name: str) -> str:
        """The kubeconfig of a cluster, as text. Raises CommandFailed."""
        return self._run.run([self.binary, "get", "kubeconfig", "--name", name], env=self._env).out

    def export_logs(self, name: str, into: Path, timeout: float) -> None:
        """Write all logs of the nodes to a folder. Raises CommandFailed."""
        self._run.run([self.binary, "export", "logs", into, "--name", name], env=self._env, timeout=timeout)
