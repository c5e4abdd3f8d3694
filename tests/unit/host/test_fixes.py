"""Fixes: their commands, their journal records, and that undo restores the machine byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.engine.journal import Journal
from lab.errors import CommandFailed, HostNotReady, Leftovers
from lab.host.docker_config import CONFIG
from lab.host.fixes import all_fixes, undo_all, undo_plan
from lab.host.kernel import CgroupMounts, Sysctls
from lab.host.runtime import PLACE, RuntimeWrapper
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
    world.runner.handle("rmdir --ignore-fail-on-non-empty /sys/fs/cgroup", exact=True)
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
    world.runner.handle("rmdir --ignore-fail-on-non-empty /sys/fs/cgroup/systemd", exact=True)
    fix = CgroupMounts(world.machine)
    fix.apply(world.runner, journal)
    assert fix.undo(world.runner, journal) == ["/sys/fs/cgroup/systemd was already unmounted"]


BOOT = "/proc/sys/kernel/random/boot_id"


def test_mounts_of_an_earlier_boot_are_not_unmounted(world: HostWorld, journal: Journal) -> None:
    """After a reboot the machine's own init system has mounted them."""
    world.put(BOOT, "one\n")
    world.put("/proc/cgroups", "cpu\t0\t1\t1\n")
    world.runner.handle("mkdir -p /sys/fs/cgroup", exact=True)
    world.runner.handle("mount -t cgroup2 cgroup2 /sys/fs/cgroup", exact=True)
    fix = CgroupMounts(world.machine)
    fix.apply(world.runner, journal)
    world.put("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    world.put(BOOT, "two\n")
    assert fix.undo(world.runner, journal) == ["/sys/fs/cgroup was already unmounted"]
    assert journal.owned() == ()


def raised_before_a_reboot(world: HostWorld, journal: Journal) -> Sysctls:
    world.put(BOOT, "one\n")
    lower_sysctls(world)
    world.obey_sysctl()
    fix = Sysctls(world.machine)
    fix.apply(world.runner, journal)
    world.put(BOOT, "two\n")
    return fix


def test_a_value_that_was_configured_before_the_reboot_is_kept(world: HostWorld, journal: Journal) -> None:
    fix = raised_before_a_reboot(world, journal)
    messages = fix.undo(world.runner, journal)
    assert messages == [
        "net.ipv4.ip_forward kept: a reboot has reset the lab's value",
        "fs.inotify.max_user_instances kept: a reboot has reset the lab's value",
    ]
    assert world.machine.sysctl("net.ipv4.ip_forward") == 1


def test_after_a_reboot_the_new_old_value_is_recorded(world: HostWorld, journal: Journal) -> None:
    fix = raised_before_a_reboot(world, journal)
    world.sysctl("fs.inotify.max_user_instances", 256)
    fix.apply(world.runner, journal)
    fix.undo(world.runner, journal)
    assert world.machine.sysctl("fs.inotify.max_user_instances") == 256


def test_forwarding_and_cgroups_stay_while_containers_run(world: HostWorld, journal: Journal) -> None:
    """The network of a container that somebody else runs needs forwarding."""
    lower_sysctls(world)
    world.obey_sysctl()
    fix = Sysctls(world.machine)
    fix.apply(world.runner, journal)
    journal.owns("mount", "/sys/fs/cgroup", "cgroup-mounts")
    world.put("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    world.runner.has("podman")
    world.runner.handle("podman ps --format", out="container theirs\n")
    for undo, what in ((fix.undo, "ip_forward"), (CgroupMounts(world.machine).undo, "/sys/fs/cgroup")):
        with pytest.raises(Leftovers, match=f"{what} was kept: containers are running") as caught:
            undo(world.runner, journal)
        assert caught.value.evidence == ("container theirs",)
    assert world.machine.sysctl("net.ipv4.ip_forward") == 1


def test_forwarding_and_cgroups_stay_while_a_dockerd_does_not_answer(world: HostWorld, journal: Journal) -> None:
    """A user who may use sudo but not Docker sees none of its containers."""
    lower_sysctls(world)
    world.obey_sysctl()
    fix = Sysctls(world.machine)
    fix.apply(world.runner, journal)
    journal.owns("mount", "/sys/fs/cgroup", "cgroup-mounts")
    world.put("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    world.runner.has("docker")
    world.docker_runs(4711)
    world.runner.handle("docker ps --format", code=1, err="permission denied while trying to connect")
    for undo, what in ((fix.undo, "ip_forward"), (CgroupMounts(world.machine).undo, "/sys/fs/cgroup")):
        with pytest.raises(Leftovers, match=rf"{what} was kept: dockerd \(process 4711\) does not answer"):
            undo(world.runner, journal)
    assert world.machine.sysctl("net.ipv4.ip_forward") == 1


def test_kernel_without_cgroups_is_refused(world: HostWorld, journal: Journal) -> None:
    with pytest.raises(HostNotReady, match="no control groups"):
        CgroupMounts(world.machine).apply(world.runner, journal)


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


def test_docker_with_an_image_of_somebody_else_is_not_even_stopped(world: HostWorld, journal: Journal) -> None:
    journal.owns("package", "docker.io", "engine-install")
    journal.owns("daemon", "dockerd", "engine-start", forward="ACCEPT", chains="False")
    world.runner.has("docker")
    world.runner.handle("docker ps -a --format")
    world.runner.handle("docker volume ls")
    world.runner.handle("docker images", out="kailab/node:v1-a 1\nmine:latest 2\n<none>:<none> 3\nkindest/node:v1 4\n")
    journal.owns("image", "kindest/node:v1", "node-image")
    world.runner.handle("docker network ls --filter type=custom", out="network mine\n")
    world.runner.handle("docker plugin ls", out="plugin loki\n")
    world.runner.handle("find /var/lib/containerd/io.containerd.content.v1.content/blobs")
    world.runner.handle("dpkg --verify docker.io", out="??5??????   /usr/bin/x\n??5?????? c /etc/default/docker\n")
    with pytest.raises(Leftovers, match="it has what no lab created") as caught:
        undo_all(world.runner, journal, world.machine)
    assert caught.value.evidence == (
        "image mine:latest",
        "image 3",
        "network mine",
        "plugin loki",
        "/etc/default/docker, which was edited",
    )
    assert len(journal.owned()) == 3


def test_the_plan_of_undo_names_everything(world: HostWorld, journal: Journal) -> None:
    lower_sysctls(world)
    world.put(CONFIG, "{}")
    world.obey_sysctl()
    world.obey_files(removing=False)
    Sysctls(world.machine).apply(world.runner, journal)
    RuntimeWrapper(world.machine).apply(world.runner, journal)
    assert undo_plan(world.runner, journal, world.machine) == [
        f"restore {CONFIG}",
        f"remove {PLACE}",
        "set fs.inotify.max_user_instances back to 128",
        "set net.ipv4.ip_forward back to 0",
    ]
    for kind, name in (
        ("daemon", "dockerd"),
        ("directory", "/var/lib/docker"),
        ("package", "runc"),
        ("group", "docker"),
    ):
        journal.owns(kind, name, "engine-install")
    journal.owns("image", "kindest/node:v1", "node-image")
    world.runner.handle("find /var/lib/docker/image", out='{"a":{"kailab/node:v1":"sha256:1","a@sha256:2":"sha256:3"}}')
    plan = undo_plan(world.runner, journal, world.machine)
    assert plan[0] == "stop dockerd"
    assert "remove the images kailab/node:v1" in plan
    assert "remove with all that is in them: /var/lib/docker" in plan
    assert "remove the packages runc" in plan


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
