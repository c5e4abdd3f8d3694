"""The real apt and debootstrap: which archive they use, and that they refuse what nobody signed."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import subprocess  # noqa: TID251 - debootstrap in a mount namespace of its own
import sys
from pathlib import Path

import psutil  # noqa: TID251 - to kill what the command started
import pytest

from lab.errors import CommandFailed
from lab.tools.debian import Debian
from lab.tools.process import HostRunner

ROOT = Path(__file__).parents[2]

BOOTSTRAP = """
import sys
from pathlib import Path
from lab.tools.debian import Debian
from lab.tools.process import HostRunner
Debian.mirror = lambda self: sys.argv[1]
Debian(HostRunner()).bootstrap("trixie", ["bash"], Path(sys.argv[2]), print)
"""


BUILD = """
import sys
from pathlib import Path
from lab.supply.cache import making, scratch
from lab.tools.debian import Debian
from lab.tools.process import HostRunner
run, target = HostRunner(), Path(sys.argv[1])
with making(target, run) as needed:
    if needed:
        with scratch(target) as folder:
            Debian(run).bootstrap("trixie", ["ca-certificates"], folder / "root", print)
            target.write_text("built")
"""

STAND_IN = """#!/bin/sh
# mounts what debootstrap mounts, then works for a while
for word in "$@"; do case "$word" in /*) into=$word ;; esac; done
mkdir -p "$into/proc" "$into/sys" "$into/etc"
[ -e "$PACE/first" ] || { mount -t proc proc "$into/proc" && mount -t sysfs sysfs "$into/sys"; }
[ -e "$PACE/first" ] || { touch "$PACE/first"; exec sleep 600; }
"""


def archive(folder: Path, origin: str, suite: str = "trixie") -> str:
    """Write an archive of one package that nobody signed, and return its address."""
    made, package = folder / "package", folder / "pool" / "kailab-it_1_all.deb"
    (made / "DEBIAN").mkdir(parents=True)
    package.parent.mkdir()
    control = "Package: kailab-it\nVersion: 1\nArchitecture: all\nMaintainer: it <it@kailab.dev>\nDescription: test\n"
    (made / "DEBIAN" / "control").write_text(control)
    subprocess.run(["dpkg-deb", "-b", made, package], check=True, capture_output=True)
    body = package.read_bytes()
    listed = f"{control}Filename: pool/{package.name}\nSize: {len(body)}\nSHA256: {hashlib.sha256(body).hexdigest()}\n"
    index = folder / "dists" / suite / "main" / "binary-amd64"
    index.mkdir(parents=True)
    (index / "Packages").write_text(listed)
    (index / "Packages.gz").write_bytes(gzip.compress(listed.encode(), mtime=0))
    sums = [(hashlib.sha256(path.read_bytes()).hexdigest(), path) for path in sorted(index.iterdir())]
    lines = [f" {digest} {path.stat().st_size} main/binary-amd64/{path.name}" for digest, path in sums]
    head = f"Origin: {origin}\nLabel: {origin}\nSuite: {suite}\nCodename: {suite}\n"
    head += "Architectures: amd64\nComponents: main\nDate: Mon, 01 Jun 2026 00:00:00 UTC\nSHA256:\n"
    (folder / "dists" / suite / "Release").write_text(head + "\n".join(lines) + "\n")
    return f"file:{folder}"


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of package sources of an apt with its own configuration, lists and cache."""
    if HostRunner().which("apt-get") is None:
        pytest.skip("this machine has no apt")
    sources = tmp_path / "etc" / "sources.list.d"
    sources.mkdir(parents=True)
    (tmp_path / "lists" / "partial").mkdir(parents=True)
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::SourceList "/dev/null"; Dir::Etc::SourceParts "{sources}"; Dir::State::Lists "{tmp_path}/lists";\n'
        f'Dir::Cache "{tmp_path}/cache"; Acquire::AllowInsecureRepositories "true"; APT::Sandbox::User "root";\n'
        'APT::Get::AllowUnauthenticated "true"; APT::Architecture "amd64"; Acquire::Languages "none";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    return sources


def test_mirror_is_debian_archive_of_the_machine(apt: Path, tmp_path: Path) -> None:
    debian = Debian(HostRunner())
    assert debian.mirror() == ""
    other, ours, off = (tmp_path / name / "debian" for name in ("docker", "remote", "disabled"))
    (apt / "a.list").write_text(f"deb [trusted=yes] {archive(other, 'Docker')} trixie main\n")
    stanza = "Types: deb\nURIs: {}\nSuites: trixie\nComponents: main\nTrusted: yes\nEnabled: {}\n"
    stanzas = [stanza.format(archive(off, "Debian"), "no"), stanza.format(archive(ours, "Debian"), "yes")]
    (apt / "b.sources").write_text("\n".join(stanzas))
    debian.update()
    assert debian.mirror() == f"file:{ours}"


def test_list_of_mirrors_names_the_archive(apt: Path, tmp_path: Path) -> None:
    """As Debian's cloud images are configured."""
    address, mirrors = archive(tmp_path / "debian", "Debian"), tmp_path / "mirrors.list"
    mirrors.write_text(f"{address}/\n")
    (apt / "a.list").write_text(f"deb [trusted=yes] mirror+file:{mirrors} trixie main\n")
    debian = Debian(HostRunner())
    debian.update()
    assert debian.mirror() == address


def test_package_that_nobody_signed_is_not_downloaded(
    apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the machine's configuration allows it: what is unpacked runs as root in nodes."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    (apt / "a.list").write_text(f"deb {archive(tmp_path / 'debian', 'Debian')} trixie main\n")
    debian = Debian(HostRunner())
    debian.update()
    (tmp_path / "into").mkdir()
    with pytest.raises(CommandFailed, match="could not be authenticated"):
        debian.download(["kailab-it"], tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize("keys", ["the machine's keys", "no keys"])
def test_debootstrap_refuses_what_debian_did_not_sign(tmp_path: Path, keys: str) -> None:
    if os.geteuid() != 0 or HostRunner().which("debootstrap") is None:
        pytest.skip("debootstrap needs to be installed, and root")
    address = archive(tmp_path / "debian", "Debian").replace("file:", "file://")
    hide = "mount -t tmpfs none /usr/share/keyrings && " if keys == "no keys" else ""
    program = [sys.executable, "-c", BOOTSTRAP, address, str(tmp_path / "root")]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{hide}exec "$@"', "sh", *program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    reason = "Keyring-based check was requested" if hide else "Invalid Release file|Release.gpg"
    assert any(word in done.stdout + done.stderr for word in reason.split("|")), done.stdout + done.stderr
    assert not (tmp_path / "root" / "var" / "cache" / "apt" / "archives" / "kailab-it_1_all.deb").exists()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("program", ["stand-in", pytest.param("debootstrap", marks=pytest.mark.long)])
@pytest.mark.parametrize("everything", [True, False], ids=["all", "lab"])
def test_killed_debootstrap_leaves_no_mount_and_the_next_build_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, everything: bool
) -> None:
    """The sweep of the folder that is left meets no /proc and /sys of the machine."""
    if os.geteuid() != 0 or HostRunner().which("debootstrap") is None:
        pytest.skip("debootstrap needs to be installed, and root")
    monkeypatch.setenv("KAILAB_CACHE", str(tmp_path / "cache"))
    if program == "stand-in":
        monkeypatch.setenv("PACE", str(tmp_path))
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "debootstrap").write_text(STAND_IN)
        (tmp_path / "bin" / "debootstrap").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    target = tmp_path / "cache" / "rootfs" / "x.tar"

    def left() -> list[str]:
        return [line for line in mounts(os.getpid()) if f"{tmp_path}/" in line]

    before = modes()
    build = [sys.executable, "-c", BUILD, str(target)]
    process = subprocess.Popen(build, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children: list[psutil.Process] = []
    while not any(f"{tmp_path}/" in line for child in children for line in mounts(child.pid)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            pytest.fail(f"it ended with {process.wait(0.05)} before it mounted anything")
        children = psutil.Process(process.pid).children(recursive=True)
    try:
        assert left() == [], "they are in a mount namespace of their own"
        process.kill()
        process.wait()
        kill(children if everything else [])
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=1500)
    finally:
        process.kill()
        kill(children)
    assert target.read_text() == "built"
    assert (modes(), left()) == (before, [])
    if everything:
        assert [path.name for path in target.parent.iterdir()] == [target.name]


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def mounts(pid: int) -> list[str]:
    """The mounts that a process sees; none if it has ended."""
    try:
        return Path(f"/proc/{pid}/mounts").read_text().splitlines()
    except OSError:
        return []


def modes() -> dict[str, int]:
    """The modes of the machine's directories in sysfs, which all mounts of it share."""
    return {str(path): path.stat().st_mode for path in Path("/sys").glob("*/*")}
