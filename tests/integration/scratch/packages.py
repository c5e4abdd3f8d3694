"""A package archive for the scratch host, which has no network: apt installs from a directory of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest

from lab.errors import CommandFailed
from lab.tools.debian import Debian
from lab.tools.process import HostRunner
from tests.integration.scratch.host import ScratchHost

PLACE = "/srv/archive"


def offer(host: ScratchHost, packages: Sequence[str]) -> None:
    """Make ``packages`` the only ones that apt can install there; skip if this machine cannot download them."""
    folder = host.home / "archive"
    folder.mkdir()
    run = HostRunner()
    try:
        files = Debian(run).download(packages, folder)
    except CommandFailed as error:
        pytest.skip(f"the packages cannot be downloaded: {error.what}")
    entries = []
    for file in files:
        control = run.run(["dpkg-deb", "-f", file]).out.strip()
        data = file.read_bytes()
        sums = f"Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}"
        entries.append(f"{control}\n{sums}\n")
    (folder / "Packages").write_text("\n".join(entries))
    # where apt's own user can read it
    script = f"cp -a {folder} {PLACE}; cd /etc/apt; rm -rf sources.list.d/* /var/lib/apt/lists/*; cat >sources.list"
    host.run("sh", "-c", script, stdin=f"deb [trusted=yes] file:{PLACE} ./\n")
