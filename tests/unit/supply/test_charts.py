"""Charts from registries and chart repositories."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import Unavailable
from lab.supply import registry
from tests.support.fakes import Call, FakeRunner

OCI = "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"


@pytest.fixture
def other_filesystem(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Python's temporary directory on another file system than the cache, as with a tmpfs on /tmp."""
    with tempfile.TemporaryDirectory(prefix="kailab-test-", dir="/dev/shm") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def helm_pull(call: Call) -> str:
    """Write a chart where ``helm pull`` would."""
    Path(call.argv[call.argv.index("--destination") + 1], "kai-scheduler-v0.16.8.tgz").write_text("the chart")
    return ""


def test_chart_is_pulled_although_tmp_is_another_file_system(
    runner: FakeRunner, tmp_path: Path, other_filesystem: Path
) -> None:
    assert other_filesystem.stat().st_dev != tmp_path.stat().st_dev
    runner.handle(f"/helm pull {OCI} --version v0.16.8 --destination", out=helm_pull)
    target = tmp_path / "fetched-chart" / "kai-scheduler-1"
    assert registry.pull_chart(Path("/helm"), OCI, "v0.16.8", runner, target).read_text() == "the chart"
    assert list(target.parent.iterdir()) == [target]


def test_chart_with_another_sha256_than_its_pin_is_refused(runner: FakeRunner, tmp_path: Path) -> None:
    target = tmp_path / "chart"
    runner.handle("/helm pull", out=helm_pull)
    with pytest.raises(Unavailable, match=rf"{OCI}:v0\.16\.8 has sha256 \w+, expected {'0' * 64}"):
        registry.pull_chart(Path("/helm"), OCI, "v0.16.8", runner, target, "0" * 64)
    assert list(tmp_path.iterdir()) == []
    pin = hashlib.sha256(b"the chart").hexdigest()
    assert registry.pull_chart(Path("/helm"), OCI, "v0.16.8", runner, target, pin) == target


@pytest.mark.parametrize(
    ("url", "mirror", "found"),
    [
        (OCI, "localhost:5001", "oci://localhost:5001/kai-scheduler/kai-scheduler/kai-scheduler"),
        (OCI, "https://mirror.example/ghcr/", "oci://mirror.example/ghcr/kai-scheduler/kai-scheduler/kai-scheduler"),
        ("https://ghcr.io/c/x.tgz", "127.0.0.1:5001", "http://127.0.0.1:5001/c/x.tgz"),
        ("https://ghcr.io/c/x.tgz", "http://mirror.example", "https://mirror.example/c/x.tgz"),
        ("https://other.example/x.tgz", "localhost:5001", "https://other.example/x.tgz"),
        ("", "localhost:5001", ""),
    ],
)
def test_mirror_replaces_the_host_of_an_address(url: str, mirror: str, found: str) -> None:
    assert registry.mirrored_url(url, {"ghcr.io": mirror}) == found
