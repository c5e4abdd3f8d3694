"""The node's root file system: what it needs from this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import HostNotReady
from lab.supply.cache import silent
from lab.supply.catalogue import load
from lab.supply.rootfs import rootfs
from tests.support.fakes import FakeRunner


def test_missing_tools_are_named_and_not_installed(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the host change build-tools installs them: it is approved, recorded and undone."""
    keys = "/usr/share/keyrings"
    monkeypatch.setattr(Path, "is_file", lambda path: not str(path).startswith(keys))
    with pytest.raises(HostNotReady, match=r"debootstrap debian-archive-keyring not installed") as caught:
        rootfs(load("1.34.4").rootfs["node"], lambda *_: None, runner, silent)
    assert "apt-get install -y --no-install-recommends debootstrap debian-archive-keyring" in caught.value.fix
    assert runner.lines == []
