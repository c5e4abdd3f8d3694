"""apt's lists and sources, and what debootstrap accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import CommandFailed
from lab.tools.debian import Debian
from tests.support.fakes import FakeRunner


@pytest.fixture(autouse=True)
def _no_retry_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Debian._update.retry, "sleep", lambda seconds: None)


def test_failed_update_is_tolerated_when_older_lists_exist(runner: FakeRunner) -> None:
    runner.handle("apt-get update -q", code=100, err="E: Failed to fetch")
    runner.handle("apt-cache pkgnames libc6", out="libc6\nlibc6-dev\n")
    Debian(runner).update()


def test_failed_update_without_lists_is_an_error(runner: FakeRunner) -> None:
    runner.handle("apt-get update -q", code=100, err="E: Failed to fetch: Temporary failure resolving")
    runner.handle("apt-cache pkgnames libc6", out="")
    with pytest.raises(CommandFailed) as failed:
        Debian(runner).update()
    assert "Temporary failure resolving" in str(failed.value)


TARGETS = """\
Docker Docker https://download.example/linux/debian/
Debian Debian-Security http://apt.example/debian-security/
Debian Debian http://apt.example/artifactory/debian-remote/
Debian Debian http://second.example/debian/
"""


@pytest.mark.parametrize(
    ("targets", "address"),
    [
        (TARGETS, "http://apt.example/artifactory/debian-remote"),
        ("Ubuntu Ubuntu http://apt.example/ubuntu/\n", ""),
        ("", ""),
    ],
)
def test_mirror_is_the_archive_that_debian_signed(runner: FakeRunner, targets: str, address: str) -> None:
    runner.has("apt-get")
    runner.handle("apt-get indextargets --format", out=targets)
    assert Debian(runner).mirror() == address


MIRRORS = "# ours\n\nhttp://a.example/debian/\tpriority:1\nhttp://b.example/debian/\n"


@pytest.mark.parametrize(("listed", "address"), [(MIRRORS, "http://a.example/debian"), (None, "")])
def test_mirror_of_a_list_of_mirrors_is_its_first_one(
    runner: FakeRunner, tmp_path: Path, listed: str | None, address: str
) -> None:
    """debootstrap knows no such list: 'unknown location mirror+file:…'."""
    file = tmp_path / "mirrors.list"
    if listed is not None:
        file.write_text(listed)
    runner.has("apt-get")
    runner.handle("apt-get indextargets", out=f"Debian Debian mirror+file:{file}/\n")
    assert Debian(runner).mirror() == address


@pytest.mark.parametrize(("targets", "words"), [(TARGETS, ["http://apt.example/artifactory/debian-remote"]), ("", [])])
def test_bootstrap_demands_signatures_and_names_no_mirror_of_its_own(
    runner: FakeRunner, targets: str, words: list[str]
) -> None:
    runner.has("apt-get")
    runner.handle("apt-get indextargets", out=targets)
    made = runner.handle("unshare --mount debootstrap --variant=minbase --force-check-gpg --include=a,b trixie /r")
    Debian(runner).bootstrap("trixie", ["a", "b"], Path("/r"), lambda line: None)
    assert list(made.calls[0].argv[8:]) == words


def test_download_refuses_packages_without_a_signature(runner: FakeRunner, tmp_path: Path) -> None:
    got = runner.handle("apt-get download -q")
    Debian(runner).download(["libc6"], tmp_path)
    assert "APT::Get::AllowUnauthenticated=false" in got.calls[0].argv
