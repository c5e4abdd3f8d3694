"""The last change of a tenant's KAI, kept in the lab's state: 'lab tenant rollback' returns to the version before.

It is written before a change begins, so that the wanted version is known after a kill. One file for each tenant; 'lab
down' removes it with the lab's directory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.config import TenantSpec
from lab.config.added_tenants import dump_added, load_added
from lab.errors import LabError
from lab.paths import LabPaths
from lab.tenants.vcluster.access import write_private


@dataclass(frozen=True)
class RollbackRecord:
    """The last change of a tenant's KAI."""

    before: TenantSpec
    """The tenant with its version, values and queues before."""
    wanted: TenantSpec
    back: bool = False
    """The change was a rollback itself."""
    done: bool = False
    """The change has finished."""

    @property
    def target(self) -> TenantSpec:
        """Target of a rollback: of an interrupted one the same, otherwise the tenant before the last change."""
        return self.wanted if self.back and not self.done else self.before

    def leads_to(self, version: str) -> bool:
        """Whether this is an upgrade to a version that has not finished."""
        return not self.back and not self.done and self.wanted.kai_version == version.removeprefix("v")


def record(paths: LabPaths, change: RollbackRecord) -> None:
    """Replace the record of a tenant. Raises LabError."""
    before, wanted = dump_added([change.before, change.wanted])
    data = {"before": before, "wanted": wanted, "back": change.back, "done": change.done}
    write_private(_path(paths, change.wanted.name), json.dumps(data, indent=1) + "\n")


def last_change(paths: LabPaths, tenant: str) -> RollbackRecord | None:
    """The last change of a tenant's KAI, if any. Raises LabError: the file is damaged."""
    path = _path(paths, tenant)
    try:
        data = json.loads(path.read_text())
        before, wanted = load_added([data["before"], data["wanted"]])
        return RollbackRecord(before, wanted, bool(data["back"]), bool(data["done"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"{path} cannot be read: {type(error).__name__}: {error}",
            fix="remove that file, and name the version with --to",
        ) from error


def forget(paths: LabPaths, tenant: str) -> None:
    """Delete the record of a tenant, if any."""
    _path(paths, tenant).unlink(missing_ok=True)


def _path(paths: LabPaths, tenant: str) -> Path:
    return paths.root / f"tenant-{tenant}.kai.json"
