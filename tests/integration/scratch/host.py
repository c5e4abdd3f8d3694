"""Start the scratch host, run commands on it, remove it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess  # noqa: TID251 - the host under test, from outside
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.paths import cache_root
from lab.tools.process import HostRunner
from tests.integration.scratch import driver

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

DAEMON_JSON = b'{\n\t"log-level":   "warn"}\n\n'
"""Formatted as no program would write it: it must be restored byte for byte."""

TOOLKIT_TOML = b"""# as its owner left it
#accept-nvidia-visible-devices-as-volume-mounts = false
disable-require = false

[nvidia-container-runtime]
log-level = 'info' # not more
"""

_NO_OVERLAY = 77


@dataclass(frozen=True)
class Done:
    """The result of a command on the scratch host."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class ScratchHost:
    """A running scratch host; ``init`` is the process id of its first process on this machine.

    ``home`` has the same path inside and outside.
    """

    home: Path
    init: int

    def argv(self, *words: str | Path, cwd: Path | None = None) -> list[str]:
        """Return the command line that runs ``words`` there."""
        enter = ["nsenter", "--target", str(self.init), "--mount", "--pid", "--net"]
        return [*enter, "sh", "-c", 'cd "$0" && exec "$@"', str(cwd or self.home), *map(str, words)]

    def run(
        self,
        *words: str | Path,
        code: int | None = 0,
        stdin: str = "",
        timeout: float = 120,
        env: dict[str, str] | None = None,
    ) -> Done:
        """Run a command there and check its exit code (None: any)."""
        done = subprocess.run(
            self.argv(*words),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=environment() if env is None else env,
        )
        assert code is None or done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)

    def python(self, script: str) -> str:
        """Run Python there, with the lab's packages; return its stdout."""
        return self.run(sys.executable, "-c", script).out

    def etc(self) -> dict[str, str]:
        """Return all files below /etc with kind, mode and content, except Docker's own identity."""
        listing = "find . -printf '%p\\t%y %m %U:%G %l\\n'"
        sums = "find . -type f -print0 | xargs -0 sha256sum"
        out = self.run("sh", "-c", f"cd /etc && {listing} && {sums}").out
        found: dict[str, list[str]] = {}
        for line in out.splitlines():
            path, _, facts = line.partition("\t")
            if not facts:
                facts, _, path = line.partition("  ")
            found.setdefault(path, []).append(facts)
        return {path: " ".join(facts) for path, facts in found.items() if path != "./docker/key.json"}

    def uuids(self) -> set[str]:
        """Return the output of ``nvidia-smi -L`` on the host."""
        return uuids_of(self.run("nvidia-smi", "-L").out)


def uuids_of(text: str) -> set[str]:
    """Return the UUIDs in the output of ``nvidia-smi -L``."""
    return {line.rpartition("UUID: ")[2].rstrip(")") for line in text.splitlines() if "UUID: " in line}


def environment() -> dict[str, str]:
    """Return this process's environment without variables that refer to anything outside the scratch host."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("DOCKER_", "KUBE", "CONTAINER_"))}
    path = f"{os.environ['PATH']}:{driver.GKE.programs}"
    return {**kept, "KAILAB_CACHE": str(cache_root()), "PATH": path}


def refusal() -> str:
    """Return why a scratch host cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "a scratch host needs root"
    if missing := [name for name in ("unshare", "nsenter", "pivot_root", "cc") if shutil.which(name) is None]:
        return f"a scratch host needs {', '.join(missing)}"
    tried = subprocess.run(["unshare", "-m", "-p", "-n", "-f", "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"no namespaces can be made here: {tried.stderr.strip()}"


@contextlib.contextmanager
def scratch_host(toolkit: Path | None = None, place: driver.Place = driver.DEBIAN) -> Iterator[ScratchHost]:
    """A scratch host, removed at the end. Skips if it cannot run here.

    With a toolkit, whose programs it gets, it has GPUs and their driver at ``place``. Without, it has neither GPUs nor
    a configured engine.
    """
    if why := refusal():
        pytest.skip(why)
    # a real file system with enough space: the engine's layers cannot be on an overlay
    home = Path(tempfile.mkdtemp(prefix="scratch-", dir=cache_root())).resolve()
    try:
        driver.write(home, HostRunner(), toolkit, place)
        if toolkit is not None:
            _configure(home)
        with _running(home) as host:
            yield host
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _configure(home: Path) -> None:
    for path, content in (("docker/daemon.json", DAEMON_JSON), ("nvidia-container-runtime/config.toml", TOOLKIT_TOML)):
        file = home / "etc" / path
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        file.chmod(0o640)
    # -S -E: starts quickly, and ignores the environment of the caller
    program = f"#!{Path(sys.executable).resolve()} -SE\n{(HERE / 'kernel.py').read_text()}"
    (home / "runc").write_text(program)
    (home / "runc").chmod(0o755)


@contextlib.contextmanager
def _running(home: Path) -> Iterator[ScratchHost]:
    shared = dict.fromkeys([home, cache_root(), ROOT, Path(sys.prefix), Path(sys.base_prefix)])
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", HERE / "enter.sh", *shared],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    init = 0
    try:
        if process.stdout.readline().strip() != "ready":
            _, err = process.communicate(timeout=30)
            if process.returncode == _NO_OVERLAY:
                pytest.skip(f"this machine's root cannot lie under an overlay: {err.strip()}")
            pytest.fail(f"the scratch host did not start: {err.strip()}")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        init = int(children[0])
        yield ScratchHost(home, init)
    finally:
        # the end of its init ends every process of the scratch host
        os.kill(init or process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
