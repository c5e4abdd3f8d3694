"""Fixes that install Debian packages, and remove exactly those again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.errors import HostNotReady, Leftovers
from lab.host import daemon, engines
from lab.host.facts import COMPILERS, os_release
from lab.host.file_backup import HostJournal, record, records
from lab.host.machine import Machine
from lab.tools.debian import Debian
from lab.tools.process import Runner

DATA = (
    "/etc/docker",
    "/etc/docker/key.json",
    "/etc/containerd",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/opt/containerd",
    "/run/docker",
    "/run/containerd",
    "/run/docker.sock",
)
"""What Docker makes outside its packages; removed again only where it was not there before."""


def install(
    run: Runner, machine: Machine, journal: HostJournal, step: str, packages: list[str], where_known: Sequence[str] = ()
) -> None:
    """Install packages after every new one is in the journal.

    Args:
        where_known: packages to install too where this release has them. The lists are renewed before it is
            asked: those of a new machine are empty, and it would seem to know none.

    Raises:
        HostNotReady: not a Debian or Ubuntu.
        CommandFailed: apt failed.
    """
    if not os_release(machine).debian or run.which("apt-get") is None:
        raise HostNotReady(
            f"cannot install {', '.join(packages)}: this is neither Debian nor Ubuntu",
            fix=f"install {', '.join(packages)} with this system's own tools and run the same command again",
        )
    apt = Debian(machine.hands(run))
    apt.repair()
    apt.update()
    packages = [*packages, *(name for name in where_known if apt.knows(name))]
    for name in apt.would_install(packages):
        if record(journal, "package", name) is None:
            journal.owns("package", name, step)
    apt.install(packages)


def remove(run: Runner, machine: Machine, journal: HostJournal, step: str, *, purge: bool) -> list[str]:
    """Remove the packages that a fix installed, unless somebody else's would go with them.

    Raises:
        Leftovers: other packages need them.
    """
    claimed = [known.name for known in records(journal, step, "package")]
    if not claimed:
        return []
    apt = Debian(machine.hands(run))
    apt.repair()
    there = sorted(set(claimed) & apt.installed())
    if there:
        if others := sorted(apt.would_remove(there) - set(claimed)):
            raise Leftovers(
                f"{', '.join(there)} stay: {', '.join(others)} installed since would go with them",
                fix=f"apt-get purge {' '.join(there)}",
            )
        apt.remove(there, purge=purge)
    for name in claimed:
        journal.released("package", name)
    return [f"packages removed: {', '.join(there)}"] if there else []


@dataclass(frozen=True)
class InstallEngine:
    """Installs Docker from Debian's or Ubuntu's own archive."""

    machine: Machine = field(default_factory=Machine)
    id: str = "engine-install"
    title: str = "install Docker"

    @property
    def commands(self) -> tuple[str, ...]:
        shown = self.machine.shown
        return (shown("apt-get update"), shown("apt-get install -y --no-install-recommends docker.io"))

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Install.

        Raises:
            HostNotReady: not a Debian or Ubuntu.
            CommandFailed: apt failed.
        """
        if run.which("docker") is not None and engines.daemon_program(run, self.machine):
            return
        for path in DATA:
            if not self.machine.path(path).exists() and record(journal, "directory", path) is None:
                journal.owns("directory", path, self.id)
        has_group = any(line.startswith("docker:") for line in self.machine.text("/etc/group").splitlines())
        if not has_group and record(journal, "group", "docker") is None:
            journal.owns("group", "docker", self.id)
        # Debian 13 keeps the client in a package that docker.io only recommends.
        client = ["docker-cli"] if run.which("docker") is None else []
        install(run, self.machine, journal, self.id, self._packages(run), where_known=client)

    def _packages(self, run: Runner) -> list[str]:
        packages = ["docker.io"]
        # Where the kernel enforces AppArmor, dockerd loads its profile with a tool it only recommends.
        enforced = self.machine.text("/sys/module/apparmor/parameters/enabled").startswith("Y")
        if enforced and run.which("apparmor_parser") is None:
            packages.append("apparmor")
        return packages

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Remove the packages, and what Docker made where nothing was before.

        Raises:
            Leftovers: Docker keeps containers or volumes, or still runs, or other packages need it.
        """
        mine = records(journal, self.id)
        if not mine:
            return []
        if kept := daemon.residents(run, self.machine):
            raise Leftovers(
                "Docker stays installed: there are containers or volumes in it",
                evidence=kept[:20],
                fix="remove them (docker rm -f -v, docker volume rm), then run the same command again",
            )
        if not self.machine.systemd and (number := daemon.pid(self.machine)) is not None:
            raise Leftovers(f"Docker stays installed: dockerd runs (process {number})", fix=f"kill {number}")
        directories = [known.name for known in mine if known.kind == "directory"]
        # Purging runs Docker's own clean-up of /var/lib/docker: not where that is older than the lab.
        said = remove(run, self.machine, journal, self.id, purge="/var/lib/docker" in directories)
        hands = self.machine.hands(run)
        for path in directories:
            hands.run(["rm", "-rf", "--one-file-system", path])
            journal.released("directory", path)
        for known in mine:
            if known.kind == "group":
                hands.run(["groupdel", known.name], check=False)
                journal.released("group", known.name)
        return said


@dataclass(frozen=True)
class BuildTools:
    """Installs what building from source needs and this machine lacks: a C compiler, debootstrap."""

    machine: Machine = field(default_factory=Machine)
    id: str = "build-tools"
    title: str = "install build tools"

    @property
    def commands(self) -> tuple[str, ...]:
        return (self.machine.shown("apt-get install -y --no-install-recommends gcc libc6-dev debootstrap"),)

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Install what is missing.

        Raises:
            HostNotReady: not a Debian or Ubuntu.
            CommandFailed: apt failed.
        """
        packages = [] if any(run.which(name) for name in COMPILERS) else ["gcc", "libc6-dev"]
        if run.which("debootstrap") is None:
            packages.append("debootstrap")
        if packages:
            install(run, self.machine, journal, self.id, packages)

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Remove what ``apply`` installed. Raises Leftovers when other packages need it."""
        return remove(run, self.machine, journal, self.id, purge=True)
