"""Fixes of kernel parameters and cgroup mounts, which last until the next boot."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.engine.journal import Journal, Owned
from lab.errors import HostNotReady
from lab.host import daemon
from lab.host.facts import cgroups
from lab.host.file_backup import record, records
from lab.host.machine import Machine
from lab.tools.process import Runner

FORWARD = "net.ipv4.ip_forward"

WANTED = {"fs.inotify.max_user_instances": 1024, "fs.inotify.max_user_watches": 1048576, FORWARD: 1}
"""Twice the doctor's minimum, as other programs use inotify too."""


def boot(machine: Machine) -> str:
    """The id of the running boot: what a fix changed in the kernel is gone with it."""
    return machine.text("/proc/sys/kernel/random/boot_id").strip()


def _rebooted(machine: Machine, change: Owned) -> bool:
    now = boot(machine)
    return change.facts.get("boot", now) != now


@dataclass(frozen=True)
class Sysctls:
    """Raises kernel parameters that are too low, without writing a file."""

    machine: Machine = field(default_factory=Machine)
    id: str = "sysctls"
    title: str = "raise inotify limits, enable IPv4 forwarding"

    def _low(self) -> dict[str, int]:
        """Current values of the parameters that are too low."""
        now = {name: self.machine.sysctl(name) for name in WANTED}
        return {name: value for name, value in now.items() if value is not None and value < WANTED[name]}

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(self.machine.shown(f"sysctl -w {name}={WANTED[name]}") for name in self._low())

    def apply(self, run: Runner, journal: Journal) -> None:
        for name, old in self._low().items():
            earlier = record(journal, "sysctl", name)
            if earlier is None or _rebooted(self.machine, earlier):
                journal.owns("sysctl", name, self.id, old=str(old), set=str(WANTED[name]), boot=boot(self.machine))
            self.machine.as_root(run).run(["sysctl", "-w", f"{name}={WANTED[name]}"])

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        """Restore the old values, except those that somebody else changed later.

        Raises Leftovers about forwarding if containers run, whoever created them: it is their network.
        """
        done = []
        for change in records(journal, self.id, "sysctl"):
            now = self.machine.sysctl(change.name)
            if _rebooted(self.machine, change):
                done.append(f"{change.name} kept: a reboot has reset the lab's value")
            elif str(now) == change.facts["set"]:
                if change.name == FORWARD:
                    daemon.require_idle(run, self.machine, f"{FORWARD} was kept")
                self.machine.as_root(run).run(["sysctl", "-w", f"{change.name}={change.facts['old']}"])
                done.append(f"{change.name} restored to {change.facts['old']}")
            else:
                done.append(f"{change.name} kept: it is {now}, which the lab did not set")
            journal.released("sysctl", change.name)
        return done


@dataclass(frozen=True)
class CgroupMounts:
    """Mounts the cgroup hierarchies where no init system has mounted them."""

    machine: Machine = field(default_factory=Machine)
    id: str = "cgroup-mounts"
    title: str = "mount cgroups"

    def _mounts(self) -> list[tuple[str, list[str]]]:
        """Mount points with the arguments of ``mount`` for them."""
        found = cgroups(self.machine)
        named = ("/sys/fs/cgroup/systemd", ["-t", "cgroup", "-o", "none,name=systemd", "cgroup"])
        if found.version == "v1":
            return [] if found.named else [named]
        if found.version == "v2":
            return []
        # A controller whose hierarchy in /proc/cgroups is not 0 belongs to v1 and is not available to v2.
        rows = [line.split() for line in self.machine.text("/proc/cgroups").splitlines() if line[:1] not in ("#", "")]
        v1 = [row[0] for row in rows if row[1] != "0" and row[3] == "1"]
        if not v1:
            return [("/sys/fs/cgroup", ["-t", "cgroup2", "cgroup2"])]
        tree = [("/sys/fs/cgroup", ["-t", "tmpfs", "-o", "mode=755", "cgroup"])]
        tree += [(f"/sys/fs/cgroup/{name}", ["-t", "cgroup", "-o", name, "cgroup"]) for name in v1]
        return [*tree, named]

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(self.machine.shown(" ".join(["mount", *words, place])) for place, words in self._mounts())

    def apply(self, run: Runner, journal: Journal) -> None:
        if not self.machine.path("/proc/cgroups").exists():
            raise HostNotReady("this kernel has no control groups", fix="use a kernel with CONFIG_CGROUPS")
        root = self.machine.as_root(run)
        for place, words in self._mounts():
            made = "" if self.machine.path(place).exists() else "yes"
            journal.owns("mount", place, self.id, made=made, boot=boot(self.machine))
            root.run(["mkdir", "-p", place])
            root.run(["mount", *words, place])

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        """Unmount, innermost first; mounts that are in use disappear with their last user.

        Mounts of an earlier boot are gone, and those at the same places belong to somebody else. Raises Leftovers if
        containers run, whoever created them.
        """
        done = []
        root = self.machine.as_root(run)
        for change in records(journal, self.id, "mount"):
            ours = not _rebooted(self.machine, change)
            mounted = ours and f" {change.name} " in self.machine.text("/proc/self/mounts")
            if mounted:
                daemon.require_idle(run, self.machine, f"{change.name} was kept")
                root.run(["umount", "-l", change.name])
            if ours and change.facts.get("made"):
                root.run(["rmdir", "--ignore-fail-on-non-empty", change.name], check=False)
            done.append(f"{change.name} {'unmounted' if mounted else 'was already unmounted'}")
            journal.released("mount", change.name)
        return done
