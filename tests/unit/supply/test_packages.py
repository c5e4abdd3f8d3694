"""Programs from Debian packages of a release, without dpkg: checksums, damage, their name in the cache."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from lab.config import LabSpec
from lab.errors import Unavailable
from lab.supply import Item, Supply, debian, download, registry
from lab.supply.catalogue import load
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner

TOOLKIT = Item("binary", "container-toolkit")
PROGRAMS = tuple(load("1.34.4").go["container-toolkit"].programs)
BASE, HOOK = load("1.34.4").binaries["container-toolkit"].packages


def package(compression: str, **programs: bytes) -> bytes:
    """A Debian package as dpkg-deb makes it: an ar archive of its version, control and data."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=f"w:{compression}") as tar:
        for name, body in {"./usr/bin/": b"", **programs}.items():
            member = tarfile.TarInfo(name)
            member.size, member.type = len(body), tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            tar.addfile(member, io.BytesIO(body))
    members = {"debian-binary": b"2.0\n", "control.tar": b"odd", f"data.tar.{compression}": data.getvalue()}
    body = b"!<arch>\n"
    for name, content in members.items():
        body += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        body += b"\n" * (len(content) % 2)
    return body


@pytest.mark.parametrize("compression", ["xz", "gz"])
def test_programs_are_unpacked(compression: str, tmp_path: Path) -> None:
    files = {"./usr/bin/one": b"1", "./usr/bin/two": b"2", "./usr/share/one": b"no", "./etc/one": b"no"}
    (tmp_path / "x.deb").write_bytes(package(compression, **files))
    (tmp_path / "out").mkdir()
    debian.unpack_programs(tmp_path / "x.deb", {"one"}, tmp_path / "out")
    (only,) = (tmp_path / "out").iterdir()
    assert (only.name, only.read_bytes(), only.stat().st_mode & 0o777) == ("one", b"1", 0o755)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", "not an ar archive"),
        (b"!<arch>\n", "no data.tar in it"),
        (package("xz", **{"./usr/bin/one": b"1"})[:220], ""),
        (b"!<arch>\n" + b"data.tar.xz".ljust(48) + b"many".ljust(10) + b"`\n", "invalid literal"),
    ],
    ids=["html", "empty", "cut", "size"],
)
def test_other_files_are_refused(body: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "x.deb").write_bytes(body)
    with pytest.raises(Unavailable, match=f"x.deb cannot be unpacked as a Debian package: .*{why}"):
        debian.unpack_programs(tmp_path / "x.deb", {"one"}, tmp_path)


class Release:
    """NVIDIA's package server, as the download module sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hook = {f"./usr/bin/{name}": name.encode() for name in PROGRAMS if name.endswith("-hook")}
        base = {f"./usr/bin/{name}": name.encode() for name in PROGRAMS}
        self.files = {BASE: package("xz", **base), HOOK: package("xz", **hook)}
        self.asked: list[str] = []
        monkeypatch.setattr(registry, "reachable", lambda host: True)
        monkeypatch.setattr(download, "size", lambda url: len(self.files[url]))
        monkeypatch.setattr(download._Transfer, "run", self.run)

    def run(self) -> str:
        raise NotImplementedError

    def sums(self) -> dict[str, str]:
        return {url: hashlib.sha256(body).hexdigest() for url, body in self.files.items()}


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    made = Release(monkeypatch)

    def run(transfer: download._Transfer) -> str:
        made.asked.append(transfer.url)
        transfer.file.write_bytes(made.files[transfer.url])
        return made.sums()[transfer.url]

    monkeypatch.setattr(download._Transfer, "run", run)
    return made


def supply_of(runner: FakeRunner, pins: dict[str, str], sources: tuple[str, ...] = ("present", "registry")) -> Supply:
    spec = LabSpec.model_validate({"supply": {"sources": sources, "pins": pins}})
    return Supply(spec, runner, ContainerEngine(runner), engine_runs=False)


def test_toolkit_comes_from_its_packages(runner: FakeRunner, release: Release) -> None:
    supply = supply_of(runner, release.sums())
    choice = supply.choose([TOOLKIT])[TOOLKIT]
    assert (choice.source, choice.where, choice.verified) == ("registry", BASE, "pinned")
    assert choice.size == sum(map(len, release.files.values()))
    name = supply.identity(TOOLKIT)
    folder = supply.path(TOOLKIT)
    assert {path.name for path in folder.iterdir()} == set(PROGRAMS)
    assert release.asked == [BASE, HOOK]

    later = supply_of(runner, release.sums())
    assert later.choose([TOOLKIT])[TOOLKIT].source == "present"
    assert (later.path(TOOLKIT), later.identity(TOOLKIT)) == (folder, name), "nodes keep their image"
    assert release.asked == [BASE, HOOK]


def test_every_package_is_checked_against_its_own_pin(runner: FakeRunner, release: Release) -> None:
    supply = supply_of(runner, {**release.sums(), HOOK: "0" * 64})
    with pytest.raises(Unavailable, match=f"expected {'0' * 64}"):
        supply.path(TOOLKIT)
    assert supply_of(runner, release.sums()).choose([TOOLKIT])[TOOLKIT].source == "registry", "nothing was kept"


def test_missing_pin_of_one_package_is_stated(runner: FakeRunner, release: Release) -> None:
    supply = supply_of(runner, {**release.sums(), HOOK: ""})
    assert supply.choose([TOOLKIT])[TOOLKIT].verified == "not pinned: no checksum"


def test_package_without_an_expected_program_is_refused(runner: FakeRunner, release: Release) -> None:
    release.files = dict.fromkeys(release.files, package("xz", **{"./usr/bin/nvidia-ctk": b"x"}))
    with pytest.raises(Unavailable, match="has no nvidia-container-runtime"):
        supply_of(runner, release.sums()).path(TOOLKIT)


def test_built_programs_keep_their_name(runner: FakeRunner) -> None:
    supply = supply_of(runner, {}, ("present", "build"))
    row = supply.catalogue.binaries["container-toolkit"]
    assert replace(row, packages=()).build == "go:container-toolkit/*"
    supply.choices[TOOLKIT] = replace(supply.choose([TOOLKIT])[TOOLKIT], source="build")
    assert supply.identity(TOOLKIT).startswith("container-toolkit-")
