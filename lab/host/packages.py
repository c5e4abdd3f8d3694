"""Fixes that install Debian packages and remove exactly those again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.engine.journal import Journal
from lab.errors import HostNotReady, Leftovers
from lab.host import daemon, engines
from lab.host.facts import COMPILERS, os_release
from lab.host.file_backup import record, records
from lab.host.machine import Machine
from lab.tools.debian import Debian, bootstrap_packages
from lab.tools.process import Runner

CONFIG = ("/etc/docker", "/etc/containerd", "/opt/containerd")
"""Of ``DATA``, directories in which an administrator may put files; these are kept."""

DATA = (
    "/etc/docker/key.json",
    *CONFIG,
    "/var/lib/docker",
    "/var/lib/containerd",
    "/run/docker",
    "/run/containerd",
    "/run/docker.sock",
)
"""Paths that Docker creates outside its packages; removed only if they did not exist before."""

IMAGES = "kailab/node:"
"""Start of the names of labs' node images."""


def install(
    run: Runner, machine: Machine, journal: Journal, step: str, packages: list[str], optional: Sequence[str] = ()
) -> None:
    """Record and install packages, and those in ``optional`` that this release has.

    Raises HostNotReady if the machine is neither Debian nor Ubuntu.
    """
    if not os_release(machine).debian or run.which("apt-get") is None:
        names = ", ".join(packages)
        raise HostNotReady(
            f"{names} cannot be installed: this machine is neither Debian nor Ubuntu",
            fix=f"install {names} with this system's package manager, then run the same command again",
        )
    apt = Debian(machine.as_root(run))
    apt.repair()
    apt.update()  # before 'knows': on a new machine the lists are empty
    packages = [*packages, *(name for name in optional if apt.knows(name))]
    for name in apt.would_install(packages):
        if record(journal, "package", name) is None:
            journal.owns("package", name, step)
    apt.install(packages)


def remove(run: Runner, machine: Machine, journal: Journal, step: str, *, purge: bool) -> list[str]:
    """Remove the packages that a fix installed. Raises Leftovers if other packages depend on them."""
    recorded = [change.name for change in records(journal, step, "package")]
    if not recorded:
        return []
    apt = Debian(machine.as_root(run))
    apt.repair()
    installed = sorted(set(recorded) & apt.installed())
    if installed:
        if others := sorted(apt.would_remove(installed) - set(recorded)):
            raise Leftovers(
                f"{', '.join(installed)} were kept: removing them would also remove {', '.join(others)}",
                fix=f"apt-get purge {' '.join(installed)}",
            )
        apt.remove(installed, purge=purge)
    for name in recorded:
        journal.released("package", name)
    return [f"packages removed: {', '.join(installed)}"] if installed else []


@dataclass(frozen=True)
class InstallEngine:
    """Installs Docker from the archive of Debian or Ubuntu."""

    machine: Machine = field(default_factory=Machine)
    id: str = "engine-install"
    title: str = "install Docker"

    @property
    def commands(self) -> tuple[str, ...]:
        shown = self.machine.shown
        return (shown("apt-get update"), shown("apt-get install -y --no-install-recommends docker.io"))

    def apply(self, run: Runner, journal: Journal) -> None:
        if run.which("docker") is not None and engines.daemon_program(run, self.machine):
            return
        for path in DATA:
            if not self.machine.path(path).exists() and record(journal, "directory", path) is None:
                journal.owns("directory", path, self.id)
        has_group = any(line.startswith("docker:") for line in self.machine.text("/etc/group").splitlines())
        if not has_group and record(journal, "group", "docker") is None:
            journal.owns("group", "docker", self.id)
        packages = ["docker.io"]
        # With AppArmor, dockerd loads its profile with a program that docker.io only recommends.
        apparmor = self.machine.text("/sys/module/apparmor/parameters/enabled").startswith("Y")
        if apparmor and run.which("apparmor_parser") is None:
            packages.append("apparmor")
        # Debian 13 has the client in a package that docker.io only recommends.
        client = ["docker-cli"] if run.which("docker") is None else []
        install(run, self.machine, journal, self.id, packages, optional=client)

    def require_unused(self, run: Runner, journal: Journal) -> None:
        """Raise Leftovers if Docker or containerd has anything that no lab created, or a configuration was edited."""
        changes = records(journal, self.id)
        if not changes:
            return
        ours = {image.name for image in journal.owned("image")}
        found = daemon.residents(run, self.machine)
        names = (name for name in daemon.images(run, self.machine) if not name.startswith(IMAGES) and name not in ours)
        found += [*(f"image {name}" for name in names), *daemon.others(run, self.machine)]
        if packages := [change.name for change in changes if change.kind == "package"]:
            found += [f"{path}, which was edited" for path in Debian(self.machine.as_root(run)).edited(packages)]
        if found:
            raise Leftovers(
                "Docker was kept: it has what no lab created",
                evidence=found[:20],
                fix="remove these or, to keep them, keep Docker; then run the same command again",
            )

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        """Remove the packages and everything that Docker created, but no file that an administrator put there.

        Raises Leftovers if anything depends on Docker, or it runs without systemd.
        """
        changes = records(journal, self.id)
        if not changes:
            return []
        self.require_unused(run, journal)
        if not self.machine.systemd and (number := daemon.pid(self.machine)) is not None:
            raise Leftovers(f"Docker was kept: dockerd is running (process {number})", fix=f"kill {number}")
        paths = [change.name for change in changes if change.kind == "directory"]
        # Purging removes /var/lib/docker: not if it is older than the lab.
        done = remove(run, self.machine, journal, self.id, purge="/var/lib/docker" in paths)
        root = self.machine.as_root(run)
        if paths and engines.daemon_program(run, self.machine):
            raise Leftovers("Docker's data was kept: another dockerd is installed", evidence=paths, fix="kailab doctor")
        for path in sorted(paths, key=DATA.index):
            if path in CONFIG:
                root.run(["find", path, "-depth", "-type", "d", "-empty", "-delete"], check=False)
            else:
                root.run(["rm", "-rf", "--one-file-system", path])
            if self.machine.path(path).exists():
                files = sorted(str(file) for file in self.machine.path(path).rglob("*") if file.is_file())
                done.append(f"{path} kept: it has {', '.join(files)}, which the lab did not write")
            journal.released("directory", path)
        for change in changes:
            if change.kind == "group":
                root.run(["groupdel", change.name], check=False)
                journal.released("group", change.name)
        for image in journal.owned("image"):
            journal.released("image", image.name)
        return done


def build_packages(compiler: object, debootstrap: object, root: Path) -> list[str]:
    """Packages that builds from source need and the machine lacks; the arguments are the programs, if it has them."""
    return ([] if compiler else ["gcc", "libc6-dev"]) + bootstrap_packages(debootstrap, root)


@dataclass(frozen=True)
class BuildTools:
    """Installs a C compiler, and debootstrap with Debian's keys, which builds from source need."""

    machine: Machine = field(default_factory=Machine)
    id: str = "build-tools"
    title: str = "install build tools"

    @property
    def commands(self) -> tuple[str, ...]:
        packages = "gcc libc6-dev debootstrap debian-archive-keyring"
        return (self.machine.shown(f"apt-get install -y --no-install-recommends {packages}"),)

    def apply(self, run: Runner, journal: Journal) -> None:
        compiler = any(run.which(name) for name in COMPILERS)
        if packages := build_packages(compiler, run.which("debootstrap"), self.machine.root):
            install(run, self.machine, journal, self.id, packages)

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        return remove(run, self.machine, journal, self.id, purge=True)
