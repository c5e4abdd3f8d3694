"""Paths of kailab's own files.

State (what labs own) is separate from the cache (downloads and builds): deleting the cache never loses a lab.
``KAILAB_STATE`` and ``KAILAB_CACHE`` override the platform's directories.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.errors import LabError, SpecError
from lab.files import write_atomic

_CACHE_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# kailab cache: safe to delete, see bford.info/cachedir\n"

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def state_root() -> Path:
    """Directory of kailab's state: labs, journals, host changes. Raises LabError: nodes cannot mount it."""
    root = _root("state")
    if ":" in str(root):  # kind passes mounts as HOST:CONTAINER
        raise LabError(
            f"the state directory {root} has a ':', so nodes cannot mount files of it",
            fix="set KAILAB_STATE to a directory without ':'",
        )
    return root


def _root(kind: Literal["state", "cache"]) -> Path:
    if override := os.environ.get(f"KAILAB_{kind.upper()}"):
        return Path(override).expanduser().absolute()
    import platformdirs

    path = platformdirs.user_state_path if kind == "state" else platformdirs.user_cache_path
    return path("kailab", appauthor=False)


def owner() -> str:
    """An id of the state directory (12 hex digits), which distinguishes labs of the same name."""
    return hashlib.sha256(os.path.realpath(state_root()).encode()).hexdigest()[:12]


def lab_names() -> tuple[str, ...]:
    """Labs that have state on this machine. Raises LabError if the state cannot be read."""
    labs = state_root() / "labs"
    try:
        return tuple(sorted(path.name for path in labs.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise LabError(
            f"{labs} cannot be read: {error.strerror}",
            fix="run as the user who created the labs, or set KAILAB_STATE to your own directory",
        ) from error


def cache_path() -> Path:
    """Path of the cache directory, which may not exist yet."""
    return _root("cache")


def cache_root() -> Path:
    """Directory of downloads, builds and bundles, created on first use. Raises LabError if it cannot be created."""
    root = cache_path()
    tag = root / "CACHEDIR.TAG"
    try:
        if not tag.exists():
            write_atomic(tag, _CACHE_TAG, sync=False)
    except OSError as error:
        raise LabError(
            f"the cache directory {root} cannot be created: {error.strerror}",
            fix="set KAILAB_CACHE to a writable directory with 10 GiB of free space",
        ) from error
    return root


def bundles_root() -> Path:
    """Directory where bundles are found by default."""
    return cache_root() / "bundles"


def assets(kind: str) -> Path:
    """Directory of shipped files, ``kind`` or ``manifests``: in a checkout or inside the wheel."""
    packaged = Path(__file__).parent / "_assets" / kind
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / kind


def suites() -> Path | None:
    """Folder of the suites: ``lab/suites`` in a wheel, ``tests/e2e`` in a checkout; None without either."""
    package = Path(__file__).parent
    return next((path for path in (package / "suites", package.parent / "tests" / "e2e") if path.is_dir()), None)


@dataclass(frozen=True)
class LabPaths:
    """State files of one lab."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SpecError(
                f"Invalid lab name {self.name!r}",
                fix="use at most 40 lower-case letters, digits and '-', starting with a letter",
            )

    @property
    def root(self) -> Path:
        return state_root() / "labs" / self.name

    @property
    def journal(self) -> Path:
        """Append-only record of objects that the lab owns."""
        return self.root / "journal.jsonl"

    @property
    def spec(self) -> Path:
        """The lab file as resolved by the last ``kailab up``."""
        return self.root / "lab.json"

    @property
    def owner(self) -> Path:
        """A file that the lab's nodes mount; the mount's target identifies this state directory."""
        return self.root / "owner"

    @property
    def paused(self) -> Path:
        """Exists from ``kailab pause`` until the lab's nodes have continued."""
        return self.root / "paused"

    @property
    def volumes(self) -> Path:
        """Data of the lab's PersistentVolumes, which all of its nodes mount; pods write it as root."""
        return self.root / "volumes"

    @property
    def checkpoint(self) -> Path:
        """State of the lab after its first ``kailab up``, with the cluster's keys (mode 0700); outlives ``root``."""
        return state_root() / "checkpoints" / self.name

    @property
    def lock(self) -> Path:
        """Lock file for the process that changes the lab. ``kailab down`` removes ``root``, so it is elsewhere."""
        return state_root() / "locks" / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """Log of all commands and their output."""
        return self.root / "lab.log"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the lab's own cluster (mode 0600)."""
        return self.root / "kubeconfig"

    def tenant_kubeconfig(self, tenant: str) -> Path:
        """Kubeconfig of one tenant (mode 0600)."""
        return self.root / f"tenant-{tenant}.kubeconfig"

    def tenant_port_forward(self, tenant: str) -> Path:
        """Errors of the port-forward to one tenant, which runs as long as this file exists."""
        return self.root / f"tenant-{tenant}.port-forward"

    @property
    def runs(self) -> Path:
        """Folder of run records, the source of the estimates of ``kailab plan``."""
        return state_root() / "runs" / self.name


def host_journal() -> Path:
    """Journal of changes to the machine and how to undo them; shared by all labs."""
    return state_root() / "host.jsonl"


def host_lock() -> Path:
    """Lock file for the process that changes the machine, so that two labs do not do it at once."""
    return state_root() / "host.lock"


def network_lock() -> Path:
    """Lock file for the process that creates kind's network."""
    return state_root() / "network.lock"
