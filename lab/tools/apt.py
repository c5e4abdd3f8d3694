"""Façade over apt and dpkg: what is installed, and what a change would touch, before it is made."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lab.errors import CommandFailed
from lab.tools.debian import Debian
from lab.tools.process import Runner

_ENV = {"DEBIAN_FRONTEND": "noninteractive"}


class Apt:
    """The package database of this machine.

    Args:
        run: how commands are run; installing and removing need root's rights.
    """

    def __init__(self, run: Runner) -> None:
        self._run = run

    def installed(self) -> frozenset[str]:
        out = self._run.run(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n"]).out
        return frozenset(line.split()[0] for line in out.splitlines() if line.endswith(" installed"))

    def knows(self, package: str) -> bool:
        """Whether the package can be installed from the configured sources."""
        out = self._run.run(["apt-cache", "policy", package], check=False).out
        found = re.search(r"^\s+Candidate: (\S+)", out, re.MULTILINE)
        return found is not None and found[1] != "(none)"

    def repair(self) -> None:
        """Finish what a killed dpkg left half done. Raises CommandFailed."""
        self._run.run(["dpkg", "--configure", "-a"], env=_ENV)

    def update(self) -> None:
        """Refresh the lists. A source that does not answer is no error where older lists are there.

        Raises:
            CommandFailed: it failed, and a machine without any lists can install nothing.
        """
        try:
            Debian(self._run).update()
        except CommandFailed:
            if not self._run.run(["apt-cache", "pkgnames", "libc6"], check=False).out.strip():
                raise

    def would_install(self, packages: Sequence[str]) -> tuple[str, ...]:
        """All packages that are new on this machine when these are installed. Raises CommandFailed."""
        out = self._run.run(["apt-get", "install", "-s", "--no-install-recommends", *packages]).out
        return tuple(re.findall(r"^Inst (\S+) \(", out, re.MULTILINE))

    def install(self, packages: Sequence[str]) -> None:
        """Install without what is only recommended. Raises CommandFailed."""
        Debian(self._run).install(packages)

    def would_remove(self, packages: Sequence[str]) -> frozenset[str]:
        """All packages that go when these go. Raises CommandFailed."""
        out = self._run.run(["apt-get", "purge", "-s", *packages]).out
        return frozenset(re.findall(r"^(?:Remv|Purg) (\S+)", out, re.MULTILINE))

    def purge(self, packages: Sequence[str]) -> None:
        """Remove with configuration. Raises CommandFailed."""
        self._run.run(["apt-get", "purge", "-yq", *packages], env=_ENV)

    def remove(self, packages: Sequence[str]) -> None:
        """Remove and leave configuration and data. Raises CommandFailed."""
        self._run.run(["apt-get", "remove", "-yq", *packages], env=_ENV)
