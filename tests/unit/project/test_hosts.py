"""No host of a package registry in the tree: the machine's apt, go and pip name theirs."""

from __future__ import annotations

import re
import subprocess  # noqa: TID251 - git lists the files of the tree
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

DOMAINS = {
    "debian": ("deb", "security", "ftp", "archive", "snapshot"),
    "ubuntu": ("archive", "security", "ports"),
    "golang": ("proxy", "sum", "index"),
    "pypi": ("www", "test", "upload"),
    "pythonhosted": ("files",),
    "npmjs": ("registry",),
    "crates": ("static", "index"),
    "rubygems": ("www",),
}
"""Second-level domain → hosts; written apart, so that this file names none."""
NAMES = "|".join(rf"(?:{'|'.join(hosts)})\.{domain}" for domain, hosts in DOMAINS.items())
HOST = re.compile(rf"(?<![\w.-])(?:{NAMES}|pypi|crates|rubygems)\.(?:org|com|io)\b", re.IGNORECASE)


def test_pattern_recognizes_hosts() -> None:
    for domain, hosts in DOMAINS.items():
        assert all(HOST.search(f"https://{host}.{domain}.org/x") for host in hosts)
    assert HOST.search("index = pypi." + "org")
    assert not HOST.search("registry.k8s.io golang.org/x/mod debian.example")


@pytest.mark.processes("git")
def test_no_file_names_a_package_registry() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name and not name.startswith("docs/")]
    assert len(paths) > 500
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in paths
        if path.is_file() and (found := HOST.search(path.read_bytes().decode(errors="replace")))
    ]
    assert wrong == []
