"""Facade over apt, dpkg and debootstrap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lab.errors import CommandFailed
from lab.tools.process import OnLine, Runner, output_of
from lab.tools.retry import retried

_ENV = {"DEBIAN_FRONTEND": "noninteractive"}
_KEYRING = "debian-archive-keyring"
"""Debian's archive keys: name of the package, of Ubuntu too, and of the file; its suffix depends on the release."""
_LIST = "mirror+file:"
"""Start of an address that is a file with addresses, as Debian's cloud images have it."""


def bootstrap_packages(debootstrap: object, root: Path = Path("/")) -> list[str]:
    """Packages that ``Debian.bootstrap`` needs and the machine lacks; ``debootstrap`` is the program, if it has it."""
    keys = [root / "usr/share/keyrings" / f"{_KEYRING}.{suffix}" for suffix in ("gpg", "pgp")]
    return ([] if debootstrap else ["debootstrap"]) + ([] if any(key.is_file() for key in keys) else [_KEYRING])


class Debian:
    """The package tools of this machine; methods that run one raise CommandFailed.

    Changes to the machine need a ``run`` with root rights.
    """

    def __init__(self, run: Runner) -> None:
        self._run = run

    def usable(self) -> str:
        """Empty when packages can be downloaded here, otherwise what is missing."""
        missing = [tool for tool in ("apt-get", "dpkg-deb") if self._run.which(tool) is None]
        return f"{', '.join(missing)} not installed" if missing else ""

    def mirror(self) -> str:
        """Address of the Debian archive among apt's sources; empty if apt has none, or no lists of it yet.

        apt tells by the signed Release files, so other archives whose address ends in /debian do not count. Of a list
        of mirrors (method mirror+file, apt-transport-mirror(1)), which only apt reads, it is the first one.
        """
        if self._run.which("apt-get") is None:
            return ""
        fields = "$(ORIGIN) $(LABEL) $(REPO_URI)"
        listed = output_of(self._run, "apt-get", "indextargets", "--format", fields, "Created-By: Packages")
        found = re.search(r"^Debian Debian (\S+?)/?$", listed, re.MULTILINE)
        address = found[1] if found else ""
        return _first_mirror(Path(address.removeprefix(_LIST))) if address.startswith(_LIST) else address

    def installed(self) -> frozenset[str]:
        out = self._run.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"]).out
        return frozenset(line.split()[0] for line in out.splitlines() if line.endswith(" installed"))

    def knows(self, package: str) -> bool:
        """Whether the configured sources have the package."""
        out = self._run.run(["apt-cache", "policy", package], check=False).out
        found = re.search(r"^\s+Candidate: (\S+)", out, re.MULTILINE)
        return found is not None and found[1] != "(none)"

    def repair(self) -> None:
        """Finish what an interrupted dpkg left unconfigured."""
        self._run.run(["dpkg", "--configure", "-a"], env=_ENV)

    def update(self) -> None:
        """Refresh apt's lists; a source that does not answer is an error only where no older lists exist."""
        try:
            self._update()
        except CommandFailed:
            if not self._run.run(["apt-cache", "pkgnames", "libc6"], check=False).out.strip():
                raise

    @retried()
    def _update(self) -> None:
        self._run.run(["apt-get", "update", "-q"])

    @retried()
    def download(self, packages: Sequence[str], into: Path) -> list[Path]:
        """Download packages, without their dependencies, into a folder."""
        # apt's sandbox user cannot write into a folder that root owns
        options = ["-o", "APT::Sandbox::User=root", "-o", "APT::Get::AllowUnauthenticated=false"]
        self._run.run(["apt-get", "download", "-q", *options, *packages], cwd=into)
        return sorted(into.glob("*.deb"))

    def unpack(self, package: Path, into: Path) -> None:
        self._run.run(["dpkg-deb", "-x", package, into])

    def would_install(self, packages: Sequence[str]) -> tuple[str, ...]:
        """All packages that installing these adds to the machine."""
        out = self._run.run(["apt-get", "install", "-s", "--no-install-recommends", *packages]).out
        return tuple(re.findall(r"^Inst (\S+) \(", out, re.MULTILINE))

    @retried()
    def install(self, packages: Sequence[str]) -> None:
        """Install packages without those that they only recommend."""
        self._run.run(["apt-get", "install", "-yq", "--no-install-recommends", *packages], env=_ENV)

    def would_remove(self, packages: Sequence[str]) -> frozenset[str]:
        """All packages that removing these removes."""
        out = self._run.run(["apt-get", "purge", "-s", *packages]).out
        return frozenset(re.findall(r"^(?:Remv|Purg) (\S+)", out, re.MULTILINE))

    def edited(self, packages: Sequence[str]) -> tuple[str, ...]:
        """Configuration files of packages that somebody changed."""
        out = self._run.run(["dpkg", "--verify", *packages], check=False).out
        return tuple(re.findall(r"^..5\S* c (\S+)$", out, re.MULTILINE))

    def remove(self, packages: Sequence[str], *, purge: bool) -> None:
        """Remove packages; with ``purge`` also their configuration and data."""
        self._run.run(["apt-get", "purge" if purge else "remove", "-yq", *packages], env=_ENV)

    def bootstrap(self, suite: str, packages: Sequence[str], into: Path, on_line: OnLine) -> None:
        """Make a minimal root file system of a Debian ``suite`` with ``packages``; refuses what Debian did not sign.

        Without a Debian archive among apt's sources, debootstrap uses the one that it is configured with. It mounts
        /proc and /sys in ``into``: in a mount namespace, so that they are gone with it even if it is killed.
        """
        mirror = self.mirror()
        argv = ["unshare", "--mount", "debootstrap", "--variant=minbase", "--force-check-gpg"]
        argv += [f"--include={','.join(packages)}", suite]
        self._run.run([*argv, into, *([mirror] if mirror else [])], on_line=on_line)


def _first_mirror(file: Path) -> str:
    """The first address in a list of mirrors; empty if it cannot be read. Priorities follow an address after a tab."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.split()[0].rstrip("/") for line in lines if line.strip() and not line.startswith("#")), "")
