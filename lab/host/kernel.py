"""Fixes of the kernel's run-time state: parameters and cgroup mounts. A reboot undoes them too."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.errors import HostNotReady
from lab.host.facts import cgroups
from lab.host.file_backup import HostJournal, record, records
from lab.host.machine import Machine
from lab.tools.process import Runner

WANTED = {"fs.inotify.max_user_instances": 1024, "fs.inotify.max_user_watches": 1048576, "net.ipv4.ip_forward": 1}
"""Twice what the doctor asks for: other programs use inotify too."""


@dataclass(frozen=True)
class Sysctls:
    """Raises kernel parameters that are too low, at run time only; no file is written."""

    machine: Machine = field(default_factory=Machine)
    id: str = "sysctls"
    title: str = "raise inotify limits, turn IPv4 forwarding on"

    def _low(self) -> dict[str, tuple[int, int]]:
        now = {name: self.machine.sysctl(name) for name in WANTED}
        return {
            name: (value, WANTED[name]) for name, value in now.items() if value is not None and value < WANTED[name]
        }

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(self.machine.shown(f"sysctl -w {name}={wanted}") for name, (_, wanted) in self._low().items())

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Set what is too low. Raises CommandFailed."""
        for name, (old, wanted) in self._low().items():
            if record(journal, "sysctl", name) is None:
                journal.owns("sysctl", name, self.id, old=str(old), set=str(wanted))
            self.machine.hands(run).run(["sysctl", "-w", f"{name}={wanted}"])

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Give back the old values, except where somebody has set another one since."""
        said = []
        for known in records(journal, self.id, "sysctl"):
            now = self.machine.sysctl(known.name)
            if str(now) == known.facts["set"]:
                self.machine.hands(run).run(["sysctl", "-w", f"{known.name}={known.facts['old']}"])
                said.append(f"{known.name} back to {known.facts['old']}")
            else:
                said.append(f"{known.name} is {now}, not what the lab set, and stays")
            journal.released("sysctl", known.name)
        return said


@dataclass(frozen=True)
class CgroupMounts:
    """Mounts cgroup hierarchies where an init that would have done so does not run."""

    machine: Machine = field(default_factory=Machine)
    id: str = "cgroup-mounts"
    title: str = "mount cgroups"

    def _mounts(self) -> list[tuple[str, list[str]]]:
        found = cgroups(self.machine)
        named = ("/sys/fs/cgroup/systemd", ["-t", "cgroup", "-o", "none,name=systemd", "cgroup"])
        if found.version == "v1":
            return [] if found.named else [named]
        if found.version == "v2":
            return []
        # /proc/cgroups names a hierarchy other than 0 where v1 has a controller: v2 would not get it.
        rows = [line.split() for line in self.machine.text("/proc/cgroups").splitlines() if line[:1] not in ("#", "")]
        taken = [row[0] for row in rows if row[1] != "0" and row[3] == "1"]
        if not taken:
            return [("/sys/fs/cgroup", ["-t", "cgroup2", "cgroup2"])]
        tree = [("/sys/fs/cgroup", ["-t", "tmpfs", "-o", "mode=755", "cgroup"])]
        tree += [(f"/sys/fs/cgroup/{name}", ["-t", "cgroup", "-o", name, "cgroup"]) for name in taken]
        return [*tree, named]

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(self.machine.shown(" ".join(["mount", *words, place])) for place, words in self._mounts())

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Mount what is missing.

        Raises:
            CommandFailed: a mount was refused.
            HostNotReady: the kernel has no cgroups.
        """
        if not self.machine.path("/proc/cgroups").exists():
            raise HostNotReady("this kernel has no control groups", fix="use a kernel with CONFIG_CGROUPS")
        hands = self.machine.hands(run)
        for place, words in self._mounts():
            journal.owns("mount", place, self.id)
            hands.run(["mkdir", "-p", place])
            hands.run(["mount", *words, place])

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Unmount what was mounted, innermost first; what is in use goes when its last user does."""
        said = []
        for known in records(journal, self.id, "mount"):
            mounted = f" {known.name} " in self.machine.text("/proc/self/mounts")
            if mounted:
                self.machine.hands(run).run(["umount", "-l", known.name])
            said.append(f"{known.name} {'unmounted' if mounted else 'was not mounted any more'}")
            journal.released("mount", known.name)
        return said
