"""Façade over Debian's package tools: fetching packages, unpacking them, making a root file system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from lab.errors import CommandFailed
from lab.tools.process import OnLine, Runner

_patient = retry(
    retry=retry_if_exception_type(CommandFailed),
    stop=stop_after_attempt(3),
    reraise=True,
    wait=wait_exponential(multiplier=2, max=20),
)


class Debian:
    """apt, dpkg-deb and debootstrap of this machine.

    Args:
        run: how commands are run.
        etc: the machine's /etc, for its package sources.
    """

    def __init__(self, run: Runner, etc: Path = Path("/etc")) -> None:
        self._run = run
        self._etc = etc

    def usable(self) -> str:
        """Empty when packages can be fetched here, otherwise what is missing."""
        missing = [tool for tool in ("apt-get", "dpkg-deb") if self._run.which(tool) is None]
        return f"{', '.join(missing)} not installed" if missing else ""

    def mirror(self) -> str:
        """The address of this machine's own Debian archive, as its apt is set up; Debian's usual one otherwise."""
        apt = self._etc / "apt"
        files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
        text = "\n".join(file.read_text() for file in files if file.is_file())
        found = re.findall(r"^(?:deb(?: \[[^]]*\])? |URIs: *)(\S+/debian/?)(?:\s|$)", text, re.MULTILINE)
        return str(found[0]) if found else "http://deb.debian.org/debian"

    @_patient
    def update(self) -> None:
        """Refresh apt's lists. Raises CommandFailed."""
        self._run.run(["apt-get", "update", "-q"])

    @_patient
    def download(self, packages: Sequence[str], into: Path) -> list[Path]:
        """Fetch packages (not their dependencies) into a folder. Raises CommandFailed."""
        # apt's sandbox user cannot write into a folder of root's
        self._run.run(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *packages], cwd=into)
        return sorted(into.glob("*.deb"))

    def unpack(self, package: Path, into: Path) -> None:
        """Unpack a package's files. Raises CommandFailed."""
        self._run.run(["dpkg-deb", "-x", package, into])

    @_patient
    def install(self, packages: Sequence[str]) -> None:
        """Install packages on this machine. Raises CommandFailed."""
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        self._run.run(["apt-get", "install", "-yq", "--no-install-recommends", *packages], env=env)

    def bootstrap(self, suite: str, packages: Sequence[str], into: Path, on_line: OnLine) -> None:
        """Make a minimal root file system of ``suite`` with ``packages``. Raises CommandFailed."""
        self._run.run(
            ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, into, self.mirror()],
            on_line=on_line,
        )
