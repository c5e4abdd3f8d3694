"""How a tenant's KAI was before its last change, kept in the lab's state: what 'lab tenant rollback' goes back to.

Written before a change begins, so that it is known after a kill in the middle which version was wanted. One small file
for each tenant; 'lab down' removes it with the rest of the lab's directory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.config import TenantSpec
from lab.config.added_tenants import dump_added, load_added
from lab.errors import LabError
from lab.files import write_atomic
from lab.paths import LabPaths


@dataclass(frozen=True)
class RollbackRecord:
    """The last change of a tenant's KAI.

    Attributes:
        before: the tenant with the version, values and queues it had.
        wanted: the tenant as it was to become.
        back: that change was a rollback itself.
        done: it came to its end.
    """

    before: TenantSpec
    wanted: TenantSpec
    back: bool = False
    done: bool = False

    @property
    def target(self) -> TenantSpec:
        """Where a rollback goes: on with one that was cut off, otherwise to what was before the last change."""
        return self.wanted if self.back and not self.done else self.before


def record(paths: LabPaths, change: RollbackRecord) -> None:
    """Keep a change; the one before it is forgotten. Raises LabError."""
    path = _path(paths, change.wanted.name)
    before, wanted = dump_added([change.before, change.wanted])
    data = {"before": before, "wanted": wanted, "back": change.back, "done": change.done}
    try:
        write_atomic(path, json.dumps(data, indent=1) + "\n", mode=0o600)
    except OSError as error:
        raise LabError(
            f"the lab's state cannot be written to {path}: {error.strerror}",
            fix="free space or set KAILAB_STATE to a directory you can write",
        ) from error


def last_change(paths: LabPaths, tenant: str) -> RollbackRecord | None:
    """The last change of a tenant's KAI, or None. Raises LabError: the file is damaged."""
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
    """Forget a tenant that is removed; nothing to forget is success."""
    _path(paths, tenant).unlink(missing_ok=True)


def _path(paths: LabPaths, tenant: str) -> Path:
    return paths.root / f"tenant-{tenant}.kai.json"
