"""The last change of KAI in a cluster, kept in the lab's state: a rollback returns to the version before.

It is written before a change begins, so that the wanted version is known after a kill. One file for the host and for
each tenant; 'kailab down' removes it with the lab's directory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.config import KaiSpec, QueueSpec
from lab.errors import LabError
from lab.paths import LabPaths
from lab.session.private_file import write_private


@dataclass(frozen=True)
class WantedKai:
    """The KAI that a cluster is to have."""

    kai: KaiSpec
    queues: tuple[QueueSpec, ...] = ()
    """A tenant's queues, which change with its KAI; empty on the host, and for a tenant's default queues."""

    @property
    def version(self) -> str:
        return self.kai.version


@dataclass(frozen=True)
class RollbackRecord:
    """The last change of KAI in a cluster."""

    before: WantedKai
    wanted: WantedKai
    back: bool = False
    """The change was a rollback itself."""
    done: bool = False
    """The change has finished."""

    @property
    def target(self) -> WantedKai:
        """Target of a rollback: of an interrupted one the same, otherwise the KAI before the last change."""
        return self.wanted if self.back and not self.done else self.before

    def leads_to(self, version: str) -> bool:
        """Whether this is an upgrade to a version that has not finished."""
        return not self.back and not self.done and self.wanted.version == version.removeprefix("v")


def record(paths: LabPaths, tenant: str, change: RollbackRecord) -> None:
    """Replace the record of a tenant, or of the host (empty). Raises LabError."""
    before, wanted = _dumped(change.before), _dumped(change.wanted)
    data = {"before": before, "wanted": wanted, "back": change.back, "done": change.done}
    write_private(_path(paths, tenant), json.dumps(data, indent=1) + "\n")


def last_change(paths: LabPaths, tenant: str) -> RollbackRecord | None:
    """The last change of a tenant's KAI, or of the host's (empty), if any. Raises LabError: the file is damaged."""
    path = _path(paths, tenant)
    try:
        data = json.loads(path.read_text())
        return RollbackRecord(_loaded(data["before"]), _loaded(data["wanted"]), bool(data["back"]), bool(data["done"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"{path} cannot be read: {type(error).__name__}: {error}",
            fix="remove that file, and name the version with --to",
        ) from error


def forget(paths: LabPaths, tenant: str) -> None:
    """Delete the record of a tenant, or of the host (empty), if any."""
    _path(paths, tenant).unlink(missing_ok=True)


def _path(paths: LabPaths, tenant: str) -> Path:
    return paths.root / (f"tenant-{tenant}.kai.json" if tenant else "host.kai.json")


def _dumped(wanted: WantedKai) -> dict[str, object]:
    queues = [queue.model_dump(mode="json", by_alias=True) for queue in wanted.queues]
    return {"kai": wanted.kai.model_dump(mode="json", by_alias=True), "queues": queues}


def _loaded(data: dict[str, object]) -> WantedKai:
    """The KAI in a record. Raises KeyError, ValueError, TypeError."""
    kai, queues = KaiSpec.model_validate(data["kai"], by_alias=True, by_name=False), data["queues"]
    if not isinstance(queues, list):
        raise TypeError("queues is not a list")
    found = (QueueSpec.model_validate(queue, by_alias=True, by_name=False) for queue in queues)
    return WantedKai(kai, tuple(found))
