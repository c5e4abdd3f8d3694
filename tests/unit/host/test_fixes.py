"""Fixes: their commands, their journal records, and that undo restores the machine byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lab.engine.journal import Journal
from lab.errors import CommandFailed, HostNotReady, Leftovers
from lab.host import all_fixes, undo_all
from lab.host.docker_config import CONFIG
from lab.host.kernel import CgroupMounts, Sysctls
from lab.host.runtime import PLACE, RuntimeWrapper, source
from tests.support.host_world import HostWorld


def lower_sysctls(world: HostWorld) -> None:
    for name, value in (("fs.inotify.max_user_instances", 128), ("fs.inotify.max_user_watches", 2**21)):
        world.sysctl(name, value)
    world.sysctl("net.ipv4.ip_forward", 0)


def test_only_low_sysctls_are_raised_and_undo_restores_them(world: HostWorld, journal: Journal) -> None:
    lower_sysctls(world)
    before = world.files()
    world.obey_sysctl()
    fix = Sysctls(world.machine)
    assert fix.commands == ("sysctl -w fs.inotify.max_user_instances=1024", "sysctl -w net.ipv4.ip_forward=1")
    fix.apply(world.runner, journal)
    assert world.runner.lines == ["sysctl -w fs.inotify.max_user_instances=1024", "sysctl -w net.ipv4.ip_forward=1"]
    assert world.machine.sysctl("fs.inotify.max_user_instances") == 1024
    assert world.machine.sysctl("fs.inotify.max_user_watches") == 2**21
    fix.apply(world.runner, journal)
    assert len(world.runner.lines) == 2, "the second apply changes nothing"
    assert fix.undo(world.runner, journal) == [
        "net.ipv4.ip_forward restored to 0",
        "fs.inotify.max_user_instances restored to 128",
    ]
    assert world.files() == before
    assert fix.undo(world.runner, journal) == []
    assert journal.owned() == ()


def test_undo_keeps_a_sysctl_that_was_changed_later(world: HostWorld, journal: Journal) -> None:
    lower_sysctls(world)
    world.obey_sysctl()
    fix = Sysctls(world.machine)
    fix.apply(world.runner, journal)
    world.sysctl("fs.inotify.max_user_instances", 9999)
    fix.undo(world.runner, journal)
    assert world.machine.sysctl("fs.inotify.max_user_instances") == 9999
    assert world.machine.sysctl("net.ipv4.ip_forward") == 0
    assert journal.owned() == ()


def test_original_value_survives_a_reboot_and_a_second_apply(world: HostWorld, journal: Journal) -> None:
    lower_sysctls(world)
    world.obey_sysctl()
    fix = Sysctls(world.machine)
    fix.apply(world.runner, journal)
    lower_sysctls(world)
    fix.apply(world.runner, journal)
    fix.undo(world.runner, journal)
    assert world.machine.sysctl("fs.inotify.max_user_instances") == 128


def test_change_is_recorded_before_it_is_made(world: HostWorld, journal: Journal) -> None:
    lower_sysctls(world)
    world.runner.handle(["sysctl", "-w"], code=255)
    with pytest.raises(CommandFailed):
        Sysctls(world.machine).apply(world.runner, journal)
    assert [record.name for record in journal.owned("sysctl")] == ["fs.inotify.max_user_instances"]


def test_cgroup_v2_is_mounted_where_v1_has_no_controller(world: HostWorld, journal: Journal) -> None:
    world.put("/proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nmemory\t0\t1\t1\n")
    world.put("/proc/self/mounts", "")
    world.runner.handle("mkdir -p /sys/fs/cgroup", exact=True)
    world.runner.handle("mount -t cgroup2 cgroup2 /sys/fs/cgroup", exact=True, times=1)
    world.runner.handle("umount -l /sys/fs/cgroup", exact=True, times=1)
    fix = CgroupMounts(world.machine)
    assert fix.commands == ("mount -t cgroup2 cgroup2 /sys/fs/cgroup",)
    fix.apply(world.runner, journal)
    world.put("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    fix.apply(world.runner, journal)
    assert fix.undo(world.runner, journal) == ["/sys/fs/cgroup unmounted"]
    world.put("/proc/self/mounts", "")
    assert fix.undo(world.runner, journal) == []


def test_controllers_bound_to_v1_are_mounted_as_v1(world: HostWorld) -> None:
    world.put("/proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t1\t1\nhugetlb\t0\t1\t1\n")
    assert CgroupMounts(world.machine).commands == (
        "mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup",
        "mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu",
        "mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd",
    )


def test_only_the_missing_named_hierarchy_is_mounted(world: HostWorld, journal: Journal) -> None:
    world.put("/proc/cgroups", "cpu\t2\t1\t1\n")
    world.put("/proc/self/mounts", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n")
    world.runner.handle("mkdir -p /sys/fs/cgroup/systemd", exact=True)
    world.runner.handle("mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd", exact=True)
    fix = CgroupMounts(world.machine)
    fix.apply(world.runner, journal)
    assert fix.undo(world.runner, journal) == ["/sys/fs/cgroup/systemd was already unmounted"]


def test_kernel_without_cgroups_is_refused(world: HostWorld, journal: Journal) -> None:
    with pytest.raises(HostNotReady, match="no control groups"):
        CgroupMounts(world.machine).apply(world.runner, journal)


@pytest.mark.parametrize("before", [None, b'{\n\t"log-driver":   "local"}', b""])
def test_undo_unregisters_the_runtime_byte_for_byte(world: HostWorld, journal: Journal, before: bytes | None) -> None:
    if before is not None:
        world.put(CONFIG, before, 0o600)
    files, directories = world.files(), world.directories()
    world.obey_files()
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    config = json.loads(world.machine.path(CONFIG).read_text())
    assert config["default-runtime"] == "kailab-runc"
    assert config["runtimes"]["kailab-runc"]["path"] == PLACE
    assert config.get("log-driver") == ("local" if before else None)
    assert world.files()[PLACE.lstrip("/")] == (source().read_bytes(), 0o755)
    assert world.files()[CONFIG.lstrip("/")][1] == (0o644 if before is None else 0o600)
    ran = len(world.runner.lines)
    fix.apply(world.runner, journal)
    assert len(world.runner.lines) == ran, "the second apply changes nothing"
    fix.undo(world.runner, journal)
    assert (world.files(), world.directories()) == (files, directories)
    assert journal.owned() == ()
    assert fix.undo(world.runner, journal) == []


def test_undo_keeps_later_edits_of_daemon_json(world: HostWorld, journal: Journal) -> None:
    world.put(CONFIG, "{}")
    world.obey_files()
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    config = json.loads(world.machine.path(CONFIG).read_text())
    config["runtimes"]["nvidia"] = {"path": "nvidia-container-runtime"}
    world.put(CONFIG, json.dumps({**config, "debug": True}))
    messages = fix.undo(world.runner, journal)
    assert "kept later changes" in messages[0]
    assert json.loads(world.machine.path(CONFIG).read_text()) == {
        "debug": True,
        "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}},
    }


def test_running_daemon_reloads_and_returns_to_runc_before_the_runtime_is_removed(
    world: HostWorld, journal: Journal
) -> None:
    world.docker_runs(4711)
    seen: list[str | None] = []

    def hangup(call: object) -> str:
        seen.append(json.loads(world.machine.path(CONFIG).read_text()).get("default-runtime"))
        return ""

    world.obey_files()
    world.runner.handle("kill -HUP 4711", out=hangup, exact=True, times=2)
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    fix.undo(world.runner, journal)
    assert seen == ["kailab-runc", "runc"]
    assert not world.machine.path(CONFIG).exists()


def test_daemon_is_reloaded_through_systemd_where_it_runs(world: HostWorld, journal: Journal) -> None:
    world.docker_runs(4711)
    world.machine.path("/run/systemd/system").mkdir(parents=True)
    world.obey_files(removing=False)
    world.runner.handle("systemctl reload docker", exact=True, times=1)
    RuntimeWrapper(world.machine).apply(world.runner, journal)


def test_runtime_stays_while_containers_use_it(world: HostWorld, journal: Journal) -> None:
    world.obey_files(removing=False)
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    world.runner.has("docker")
    world.runner.handle("docker ps -aq", out="1\n2\n")
    world.runner.handle(["docker", "inspect", "-f"], out="runc /other\nkailab-runc /node\n")
    with pytest.raises(Leftovers) as caught:
        fix.undo(world.runner, journal)
    assert caught.value.evidence == ("node",)
    assert world.machine.path(PLACE).exists()
    assert journal.owned("file")


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"default-runtime": "nvidia"}', "nvidia"), ("{not json", "not JSON"), ("[]", "not a JSON object")],
)
def test_unsupported_daemon_json_is_not_changed(world: HostWorld, journal: Journal, text: str, why: str) -> None:
    world.put(CONFIG, text)
    with pytest.raises(HostNotReady, match=why):
        RuntimeWrapper(world.machine).apply(world.runner, journal)
    assert world.files()[CONFIG.lstrip("/")][0] == text.encode()
    assert journal.owned() == ()


def test_undo_all_stops_at_an_engine_in_use(world: HostWorld, journal: Journal) -> None:
    lower_sysctls(world)
    world.obey_sysctl()
    Sysctls(world.machine).apply(world.runner, journal)
    journal.owns("daemon", "dockerd", "engine-start", forward="ACCEPT", chains="False")
    world.runner.has("docker")
    world.runner.handle("docker ps -a --format", out="container busy\n")
    world.runner.handle("docker volume ls")
    with pytest.raises(Leftovers) as caught:
        undo_all(world.runner, journal, world.machine)
    assert "container busy" in caught.value.evidence
    assert world.machine.sysctl("net.ipv4.ip_forward") == 1, "the engine in use needs it"


def test_undo_all_on_an_untouched_machine_does_nothing(world: HostWorld, journal: Journal) -> None:
    assert undo_all(world.runner, journal, world.machine) == []
    assert world.runner.lines == []


def test_fixes_have_ids_commands_and_titles(world: HostWorld) -> None:
    lower_sysctls(world)
    fixes = all_fixes(world.machine)
    assert [fix.id for fix in fixes] == [
        "cgroup-mounts",
        "sysctls",
        "engine-install",
        "engine-runtime",
        "nvidia-runtime",
        "nvidia-cdi",
        "engine-start",
        "build-tools",
    ]
    as_user = all_fixes(replace(world.machine, euid=1000))
    assert all(command.startswith("sudo ") for fix in as_user for command in fix.commands)
    assert all(fix.title for fix in fixes)
