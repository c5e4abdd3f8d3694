"""Integration tests run the ``kailab`` command as a user would, on real clusters, with their own state directory.

A test skips with the reason if the machine lacks something; KAILAB_REQUIRE=engine (as in CI) makes that a failure.

Labs with different names are independent, so files run in parallel (pytest-xdist, ``--dist loadgroup``): the longest
first.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess  # noqa: TID251 - the command under test, from outside
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from lab.paths import cache_root
from lab.tools.process import HostRunner, Result
from tests.support import json_documents

ROOT = Path(__file__).parents[2]
UP_SECONDS = 900
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell")
BROWSER_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
)
BROWSER_SECONDS = 180.0

LONGEST_FIRST = (
    "test_offline",
    "test_real_gpus",
    "test_supply",
    "test_kills",
    "test_tenant_lab",
    "test_kai_changes",
    "test_gpu_failures",
    "test_faults",
    "test_running_lab",
    "test_lasting_lab",
    "test_lifecycle",
    "test_real_gpu_host",
)
ONE_BY_ONE = ("test_supply", "test_kai_changes", "test_lifecycle")
"""Files whose tests share neither a lab nor a fixture."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; the suites' plugin does so only when it attaches to a lab."""
    config.addinivalue_line("markers", "long: takes minutes; runs with KAILAB_LONG=1")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one worker, unless they share nothing; start the longest first.

    Tests marked ``long`` run with KAILAB_LONG=1.
    """
    for item in items:
        if item.get_closest_marker("long") is not None and not os.environ.get("KAILAB_LONG"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: KAILAB_LONG=1 runs it"))
    for item in items:
        name = item.path.stem
        if item.path.parent == Path(__file__).parent and name not in ONE_BY_ONE:
            item.add_marker(pytest.mark.xdist_group(name))
    order = {name: at for at, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@dataclass
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Parse stdout as JSON."""
        return json.loads(self.out)

    def events(self) -> list[dict[str, Any]]:
        """Parse the events of ``--ui json`` on stderr."""
        return [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]


@dataclass
class Cli:
    """The ``kailab`` command with its own state directory, and a kubeconfig of a user that must not change."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)
    labs: list[str] = field(default_factory=list)
    cleared: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.kubeconfig = self.root / "home" / ".kube" / "config"
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        self.kubeconfig.write_text("# the user's own\napiVersion: v1\nkind: Config\ncurrent-context: precious\n")
        self.before = self.kubeconfig.read_bytes()
        self.env = {
            **os.environ,
            "KAILAB_STATE": str(self.root / "state"),
            "KUBECONFIG": str(self.kubeconfig),
            "KAILAB_CACHE": str(cache_root()),
            **self.env,
        }

    def argv(self, *words: str) -> list[str]:
        """Return the command line."""
        return [sys.executable, "-m", "lab", *words]

    def __call__(self, *words: str, code: int | None = 0, timeout: float = UP_SECONDS) -> Done:
        """Run a command and check its exit code (None: any)."""
        self._clear(words)
        done = subprocess.run(
            self.argv(*words),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
        )
        if code is not None:
            assert done.returncode == code, f"kailab {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        json_documents.check(words, done.stdout)
        return Done(done.returncode, done.stdout, done.stderr)

    def _clear(self, words: Sequence[str]) -> None:
        """Remove leftovers of an interrupted test run from the labs that are to come up."""
        if words[0] not in ("up", "plan"):
            return
        names = set(self.labs)
        if "--name" in words:
            names.add(words[words.index("--name") + 1])
        elif "-f" in words:
            names.add(yaml.safe_load(Path(words[words.index("-f") + 1]).read_text()).get("name", ""))
        for name in names - self.cleared:
            self.cleared.add(name)
            if name.startswith("it-") and containers_of(HostRunner(), name):
                self("down", "--name", name)

    def until(self, stop: Callable[[dict[str, Any]], bool], sent: int, *words: str, delay: float = 0.0) -> Done:
        """Run ``kailab up --ui json`` and send a signal ``delay`` seconds after the first event that ``stop`` takes."""
        self._clear(words)
        process = subprocess.Popen(
            self.argv(*words, "--ui", "json"),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
        )
        lines: list[str] = []
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if line.startswith("{") and stop(json.loads(line)):
                timer = threading.Timer(delay, lambda: process.send_signal(sent) if process.poll() is None else None)
                timer.start()
                break
        out, err = process.communicate(timeout=UP_SECONDS)
        return Done(process.returncode, out, "".join(lines) + err)


def at_start_of(step: str) -> Callable[[dict[str, Any]], bool]:
    """Accepts the event of a step's start."""
    return lambda event: event["event"] == "StepStarted" and event["step"] == step


def lacking(what: str, why: str) -> NoReturn:
    """Skip the test, or fail it if KAILAB_REQUIRE names what the machine lacks."""
    if what in os.environ.get("KAILAB_REQUIRE", "").split(","):
        pytest.fail(f"{why} (KAILAB_REQUIRE={what})")
    pytest.skip(why)


def run_suites(env: Mapping[str, str], lab: str, *options: str, seconds: float = 1500) -> str:
    """Run suites against a lab in a pytest of their own, which must succeed; returns its output."""
    argv = [sys.executable, "-m", "pytest", *options, "--lab", lab, "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    folder = f"--lab-artifacts={Path(env['KAILAB_STATE']).parent / 'artifacts'}"
    done = subprocess.run(
        [*argv, folder], cwd=ROOT, env=env, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.fixture(scope="session")
def engine() -> HostRunner:
    """A runner on a machine whose container engine answers; skips if none does."""
    runner = HostRunner()
    if runner.which("docker") is None or runner.run(["docker", "version"], check=False).code != 0:
        lacking("engine", "no container engine runs here: kailab up --yes installs one")
    return runner


@pytest.fixture
def cli(engine: HostRunner, tmp_path: Path) -> Iterator[Cli]:
    """The command; removes every lab named in ``cli.labs`` at the end, and compares the user's kubeconfig."""
    command = Cli(tmp_path)
    yield command
    for name in command.labs:
        command("down", "--name", name, code=None)
    assert command.kubeconfig.read_bytes() == command.before


def containers_of(engine: HostRunner, name: str) -> list[str]:
    """Return the names of a lab's containers, running or not."""
    out = engine.run(
        ["docker", "ps", "-a", "--filter", f"label=io.x-k8s.kind.cluster=kailab-{name}", "--format", "{{.Names}}"]
    ).out
    return out.split()


SIGKILL, SIGINT, SIGTERM, SIGCONT = signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGCONT


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Result]:
    """Runs a headless browser."""
    runner = HostRunner()
    program = next((found for name in BROWSERS if (found := runner.which(name))), None)
    if program is None:
        lacking("browser", f"no browser here (looked for {', '.join(BROWSERS)})")

    def run(*args: str) -> Result:
        profile = f"--user-data-dir={tmp_path_factory.mktemp('browser')}"  # fresh: pages store what a user chose
        return runner.run([program, *BROWSER_OPTIONS, profile, *args], timeout=BROWSER_SECONDS)

    return run
