"""Charts from registries and chart repositories."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    assert registry.pull_chart(Path("/helm"), OCI, "v0.16.8", {}, runner, target).read_text() == "the chart"
    assert list(target.parent.iterdir()) == [target]
