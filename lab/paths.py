"""The only place where a path of kailab's own is made.

State (what labs own) and cache (what can be made again) are kept apart: deleting the cache never loses a lab.
``KAILAB_STATE`` and ``KAILAB_CACHE`` override the platform's directories.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, SpecError

_CACHE_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# kailab cache: safe to delete, see bford.info/cachedir\n"

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def state_root() -> Path:
    """Directory of everything kailab must remember: labs, journals, host changes."""
    if override := os.environ.get("KAILAB_STATE"):
        return Path(override).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("kailab", appauthor=False)


def owner() -> str:
    """A short name for the state directory, to tell its labs from others' of the same name: 12 hex digits."""
    return hashlib.sha256(os.path.realpath(state_root()).encode()).hexdigest()[:12]


def lab_names() -> tuple[str, ...]:
    """Labs that have state on this machine.

    Raises:
        LabError: the state may not be read.
    """
    labs = state_root() / "labs"
    try:
        return tuple(sorted(path.name for path in labs.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise LabError(
            f"{labs} cannot be read: {error.strerror}",
            fix="be the user who brought the labs up, or set KAILAB_STATE to a directory of yours",
        ) from error


def cache_path() -> Path:
    """Where ``cache_root`` is, or will be."""
    if override := os.environ.get("KAILAB_CACHE"):
        return Path(override).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("kailab", appauthor=False)


def cache_root() -> Path:
    """Directory of what can be had again: downloads, builds, bundles. Made on first use with a CACHEDIR.TAG.

    Raises:
        LabError: it cannot be made.
    """
    root = cache_path()
    tag = root / "CACHEDIR.TAG"
    try:
        if not tag.exists():
            root.mkdir(parents=True, exist_ok=True)
            tag.write_text(_CACHE_TAG)
    except OSError as error:
        raise LabError(
            f"the cache directory {root} cannot be made: {error.strerror}",
            fix="set KAILAB_CACHE to a directory that can be written, with 10 GiB of room",
        ) from error
    return root


def bundles_root() -> Path:
    """Directory in which bundles are found without being named."""
    return cache_root() / "bundles"


def assets(kind: str) -> Path:
    """A directory of shipped real files: ``kind`` or ``manifests``; in a checkout or inside the wheel."""
    packaged = Path(__file__).parent / "_assets" / kind
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / kind


@dataclass(frozen=True)
class LabPaths:
    """Where one lab keeps its state."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SpecError(
                f"{self.name!r} is no name for a lab", fix="use lower-case letters, digits and '-', 40 at most"
            )

    @property
    def root(self) -> Path:
        return state_root() / "labs" / self.name

    @property
    def journal(self) -> Path:
        """Append-only record of what the lab owns."""
        return self.root / "journal.jsonl"

    @property
    def spec(self) -> Path:
        """The lab file as resolved by the last ``lab up``."""
        return self.root / "lab.json"

    @property
    def owner(self) -> Path:
        """A file that the lab's nodes mount: by where it is mounted they are known as this state directory's."""
        return self.root / "owner"

    @property
    def lock(self) -> Path:
        """Lock file: one writing kailab process per lab. Outside the lab's directory, which ``lab down`` removes."""
        return state_root() / "locks" / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """Every command that was run, with its output."""
        return self.root / "lab.log"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the lab's own cluster (mode 0600)."""
        return self.root / "kubeconfig"

    def tenant_kubeconfig(self, tenant: str) -> Path:
        """Kubeconfig of one tenant (mode 0600)."""
        return self.root / f"tenant-{tenant}.kubeconfig"

    @property
    def runs(self) -> Path:
        """One record per run of the engine; the estimates of ``lab plan`` come from here."""
        return state_root() / "runs" / self.name


def host_journal() -> Path:
    """Record of changes to the machine, with what undoes them; shared by all labs."""
    return state_root() / "host.jsonl"
