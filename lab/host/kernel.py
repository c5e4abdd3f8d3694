"""Fixes of kernel parameters and cgroup mounts, which last until the next boot."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.engine.journal import Journal
from lab.errors import HostNotReady
from lab.host.facts import cgroups
from lab.host.file_backup import record, records
from lab.host.machine import Machine
from lab.tools.process import Runner

WANTED = {"fs.inotify.max_user_instances": 1024, "fs.inotify.max_user_watches": 1048576, "net.ipv4.ip_forward": 1}
"""Twice the doctor's minimum, as other programs use inotify too."""


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
            if record(journal, "sysctl", name) is None:
                journal.owns("sysctl", name, self.id, old=str(old), set=str(WANTED[name]))
            self.machine.as_root(run).run(["sysctl", "-w", f"{name}={WANTED[name]}"])

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        """Restore the old values, except those that somebody else changed later."""
        done = []
        for change in records(journal, self.id, "sysctl"):
            now = self.machine.sysctl(change.name)
            if str(now) == change.facts["set"]:
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
            journal.owns("mount", place, self.id)
            root.run(["mkdir", "-p", place])
            root.run(["mount", *words, place])

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        """Unmount, innermost first; mounts that are in use disappear with their last user."""
        done = []
        for change in records(journal, self.id, "mount"):
            mounted = f" {change.name} " in self.machine.text("/proc/self/mounts")
            if mounted:
                self.machine.as_root(run).run(["umount", "-l", change.name])
            done.append(f"{change.name} {'unmounted' if mounted else 'was already unmounted'}")
            journal.released("mount", change.name)
        return done
