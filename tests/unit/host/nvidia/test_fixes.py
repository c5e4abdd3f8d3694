"""Host preparation for real GPUs: what changes, and that undoing restores the machine byte for byte."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from lab.engine.journal import Journal
from lab.errors import HostNotReady, Leftovers
from lab.host.docker_config import CONFIG
from lab.host.nvidia import cdi
from lab.host.nvidia.cdi_fix import NvidiaCdi
from lab.host.nvidia.runtime_fix import NvidiaRuntime
from lab.host.nvidia.toolkit import CONFIG as TOOLKIT_CONFIG
from lab.host.nvidia.toolkit import calls_runtime
from lab.host.runtime import PLACE, RuntimeWrapper
from tests.support.fakes import Call, FakeClock, FakeRunner
from tests.support.host_world import HostWorld

PROGRAM = "/usr/bin/nvidia-container-runtime"
ODD = b'{\n\t"log-driver":   "local"}'
PACKAGED = (
    b"#accept-nvidia-visible-devices-as-volume-mounts = false\n[nvidia-container-runtime]\nmode = 'auto'  # ours\n"
)


@pytest.fixture
def world(world: HostWorld, runner: FakeRunner) -> HostWorld:
    runner.has("nvidia-container-runtime")
    return world


@pytest.fixture
def fix(world: HostWorld, clock: FakeClock) -> NvidiaRuntime:
    return NvidiaRuntime(world.machine, clock, clock.sleep)


def config(world: HostWorld) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.machine.path(CONFIG).read_text())
    return found


def settings(world: HostWorld) -> dict[str, Any]:
    return tomllib.loads(world.machine.path(TOOLKIT_CONFIG).read_text())


@pytest.mark.parametrize("daemon", [None, ODD, b""])
@pytest.mark.parametrize("toolkit", [None, PACKAGED])
def test_undo_restores_both_files_byte_for_byte(
    world: HostWorld, journal: Journal, fix: NvidiaRuntime, daemon: bytes | None, toolkit: bytes | None
) -> None:
    if daemon is not None:
        world.put(CONFIG, daemon, 0o600)
    if toolkit is not None:
        world.put(TOOLKIT_CONFIG, toolkit)
    files, directories = world.files(), world.directories()
    world.obey_files(removing=daemon is None or toolkit is None)
    fix.apply(world.runner, journal)
    assert config(world)["default-runtime"] == "nvidia"
    assert config(world)["runtimes"]["nvidia"]["path"] == PROGRAM
    assert config(world).get("log-driver") == ("local" if daemon else None)
    assert settings(world)["accept-nvidia-visible-devices-as-volume-mounts"] is True
    assert "runtimes" not in settings(world).get("nvidia-container-runtime", {})
    ran = len(world.runner.lines)
    fix.apply(world.runner, journal)
    assert len(world.runner.lines) == ran, "the second apply changes nothing"
    assert len(fix.undo(world.runner, journal)) == 2
    assert (world.files(), world.directories()) == (files, directories)
    assert journal.owned() == ()
    assert fix.undo(world.runner, journal) == []


def test_it_chains_to_the_runtime_wrapper_and_each_undo_restores_its_own_changes(
    world: HostWorld, journal: Journal, fix: NvidiaRuntime
) -> None:
    world.put(CONFIG, ODD)
    before = world.files()
    world.obey_files()
    wrapper = RuntimeWrapper(world.machine)
    wrapper.apply(world.runner, journal)
    between = world.files()
    fix.apply(world.runner, journal)
    assert set(config(world)["runtimes"]) == {"kailab-runc", "nvidia"}
    assert settings(world)["nvidia-container-runtime"]["runtimes"] == [PLACE, "runc", "crun"]
    fix.apply(world.runner, journal)
    assert settings(world)["nvidia-container-runtime"]["runtimes"] == [PLACE, "runc", "crun"]
    assert calls_runtime(world.machine, "kailab-runc")
    fix.undo(world.runner, journal)
    assert world.files() == between
    assert not calls_runtime(world.machine, "kailab-runc")
    wrapper.undo(world.runner, journal)
    assert world.files() == before
    assert journal.owned() == ()


def test_undo_keeps_later_changes_by_others(world: HostWorld, journal: Journal, fix: NvidiaRuntime) -> None:
    world.put(CONFIG, b"{}")
    world.put(TOOLKIT_CONFIG, PACKAGED)
    world.obey_files(removing=False)
    fix.apply(world.runner, journal)
    world.put(CONFIG, json.dumps({**config(world), "debug": True}))
    world.put(TOOLKIT_CONFIG, world.machine.path(TOOLKIT_CONFIG).read_text() + "# mine\n")
    messages = fix.undo(world.runner, journal)
    assert all("kept later changes" in message for message in messages)
    assert config(world) == {"debug": True, "default-runtime": "runc"}
    assert settings(world)["accept-nvidia-visible-devices-as-volume-mounts"] is False
    assert world.machine.path(TOOLKIT_CONFIG).read_text().endswith("# mine\n")


def run_daemon(world: HostWorld, follows: bool = True) -> list[str]:
    """Run a dockerd that reloads its file on SIGHUP if ``follows``; returns its default runtime after each signal."""
    world.docker_runs(4711)
    world.runner.has("docker")
    state = {"default": "runc"}
    seen: list[str] = []

    def hangup(call: Call) -> str:
        path = world.machine.path(CONFIG)
        named = json.loads(path.read_text()).get("default-runtime") if path.exists() else None
        if follows and named:
            state["default"] = named
        seen.append(state["default"])
        return ""

    world.runner.handle("kill -HUP 4711", out=hangup, exact=True)
    world.runner.handle("docker info --format", out=lambda _: world.docker_info(DefaultRuntime=state["default"]))
    return seen


def test_running_daemon_reloads_and_returns_to_runc_before_the_runtime_is_removed(
    world: HostWorld, journal: Journal, fix: NvidiaRuntime
) -> None:
    seen = run_daemon(world)
    world.obey_files()
    world.runner.handle("docker ps -aq")
    fix.apply(world.runner, journal)
    assert seen == ["nvidia"]
    fix.undo(world.runner, journal)
    assert seen[-1] == "runc"
    assert not world.machine.path(CONFIG).exists()


def test_daemon_reloads_a_file_with_later_changes(world: HostWorld, journal: Journal, fix: NvidiaRuntime) -> None:
    seen = run_daemon(world)
    world.obey_files()
    world.runner.handle("docker ps -aq")
    fix.apply(world.runner, journal)
    world.put(CONFIG, json.dumps({**config(world), "debug": True}))
    fix.undo(world.runner, journal)
    assert seen[-1] == "runc"
    assert config(world)["debug"] is True


def test_daemon_that_ignores_the_reload_is_not_restarted_under_running_containers(
    world: HostWorld, journal: Journal, fix: NvidiaRuntime
) -> None:
    run_daemon(world, follows=False)
    world.obey_files(removing=False)
    world.runner.handle(["docker", "ps", "--format", "{{.Names}}"], out="precious\n")
    with pytest.raises(HostNotReady, match="did not apply its new default runtime") as caught:
        fix.apply(world.runner, journal)
    assert caught.value.evidence == ("running container precious",)


def test_daemon_whose_containers_are_unknown_is_not_restarted(
    world: HostWorld, journal: Journal, fix: NvidiaRuntime
) -> None:
    world.docker_runs(4711)
    world.machine.path("/run/systemd/system").mkdir(parents=True)
    world.runner.has("docker")
    world.obey_files(removing=False)
    world.runner.handle("systemctl reload docker", exact=True, times=1)
    world.runner.handle("docker info --format", out=world.docker_info(DefaultRuntime="runc"))
    world.runner.handle(["docker", "ps", "--format", "{{.Names}}"], code=1)
    with pytest.raises(HostNotReady, match="did not apply its new default runtime"):
        fix.apply(world.runner, journal)


def test_idle_daemon_under_systemd_is_restarted(world: HostWorld, journal: Journal, fix: NvidiaRuntime) -> None:
    world.docker_runs(4711)
    world.machine.path("/run/systemd/system").mkdir(parents=True)
    world.runner.has("docker")
    world.obey_files(removing=False)
    state = {"default": "runc"}

    def restart(call: Call) -> str:
        state["default"] = "nvidia"
        return ""

    world.runner.handle("systemctl reload docker", exact=True, times=1)
    world.runner.handle("systemctl restart docker", exact=True, times=1, out=restart)
    world.runner.handle("docker info --format", out=lambda _: world.docker_info(DefaultRuntime=state["default"]))
    world.runner.handle(["docker", "ps", "--format", "{{.Names}}"])
    fix.apply(world.runner, journal)


def inspected(*lines: str) -> Callable[[Call], str]:
    return lambda _: "".join(f"{line}\n" for line in lines)


def test_runtime_stays_while_containers_use_it(world: HostWorld, journal: Journal, fix: NvidiaRuntime) -> None:
    world.obey_files(removing=False)
    fix.apply(world.runner, journal)
    world.runner.has("docker")
    world.runner.handle("docker ps -aq", out="1\n2\n")
    world.runner.handle(["docker", "inspect", "-f"], out=inspected("runc /other", "nvidia /node"))
    with pytest.raises(Leftovers) as caught:
        fix.undo(world.runner, journal)
    assert caught.value.evidence == ("node",)
    assert config(world)["default-runtime"] == "nvidia"


def test_registration_by_the_user_is_kept(world: HostWorld, journal: Journal, fix: NvidiaRuntime) -> None:
    theirs = {"runtimes": {"nvidia": {"path": "/opt/nvidia-container-runtime", "runtimeArgs": []}}}
    world.put(CONFIG, json.dumps(theirs))
    world.obey_files()
    fix.apply(world.runner, journal)
    assert config(world) == {**theirs, "default-runtime": "nvidia"}
    fix.undo(world.runner, journal)
    assert config(world) == theirs


@pytest.mark.parametrize(
    ("daemon", "toolkit", "why"),
    [
        ('{"default-runtime": "sysbox-runc"}', "", "sysbox-runc"),
        ("{not json", "", "not JSON"),
        ("[]", "", "not a JSON object"),
        ("{}", "a = = b", "not TOML"),
    ],
)
def test_unsupported_files_are_not_changed(
    world: HostWorld, journal: Journal, fix: NvidiaRuntime, daemon: str, toolkit: str, why: str
) -> None:
    world.put(CONFIG, daemon)
    world.put(TOOLKIT_CONFIG, toolkit)
    before = world.files()
    with pytest.raises(HostNotReady, match=why):
        fix.apply(world.runner, journal)
    assert world.files() == before
    assert journal.owned() == ()


def test_missing_toolkit_is_refused(world: HostWorld, journal: Journal, fix: NvidiaRuntime) -> None:
    world.runner.programs.clear()
    with pytest.raises(HostNotReady, match="not installed"):
        fix.apply(world.runner, journal)


SPEC = f"cdiVersion: 0.5.0\nkind: {cdi.KIND}\ndevices: []\n"


@pytest.mark.parametrize(("path", "before"), [("/etc/cdi/nvidia.yaml", None), ("/var/run/cdi/nvidia.yaml", SPEC)])
def test_undo_restores_the_replaced_spec(world: HostWorld, journal: Journal, path: str, before: str | None) -> None:
    if before is not None:
        world.put(path, before)
    files, directories = world.files(), world.directories()
    world.obey_files(removing=before is None)
    world.runner.handle(list(cdi.GENERATE), out=SPEC + "# new\n", exact=True)
    fix = NvidiaCdi(world.machine)
    assert fix.commands == (f"{' '.join(cdi.GENERATE)} --output={path}",)
    fix.apply(world.runner, journal)
    assert world.machine.path(path).read_text() == SPEC + "# new\n"
    fix.undo(world.runner, journal)
    assert (world.files(), world.directories()) == (files, directories)


@pytest.mark.parametrize(("out", "code"), [("", 1), ("kind: example.com/nic\n", 0)])
def test_failed_spec_generation_changes_nothing(world: HostWorld, journal: Journal, out: str, code: int) -> None:
    world.runner.handle(list(cdi.GENERATE), out=out, err="failed to initialize NVML\n", code=code)
    with pytest.raises(HostNotReady, match="generated no CDI spec") as caught:
        NvidiaCdi(world.machine).apply(world.runner, journal)
    assert caught.value.evidence == ("failed to initialize NVML",)
    assert journal.owned() == ()


def test_spec_stays_while_containers_may_need_it(world: HostWorld, journal: Journal) -> None:
    world.obey_files(removing=False)
    world.runner.handle(list(cdi.GENERATE), out=SPEC)
    fix = NvidiaCdi(world.machine)
    fix.apply(world.runner, journal)
    world.runner.has("docker")
    world.runner.handle("docker ps -aq", out="1\n")
    world.runner.handle(["docker", "inspect", "-f"], out=inspected("nvidia /node"))
    with pytest.raises(Leftovers):
        fix.undo(world.runner, journal)
    assert world.machine.path(cdi.PLACE).exists()
