"""What happens in a scenario after its objects were created; nothing needs an undo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.kai.names import RESERVATION_APP

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.kube import Cluster

Json = dict[str, Any]
SECONDS = 120.0


class _Final:
    """An event without an undo: the scenario's namespace is deleted."""

    def undo(self, cluster: Cluster) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Started(_Final):
    """Pods are Ready."""

    space: str
    names: tuple[str, ...] = ("p",)

    def do(self, cluster: Cluster) -> None:
        cluster.wait_ready("Pod", self.names, self.space, timeout=SECONDS)


@dataclass(frozen=True)
class Appears(_Final):
    """An object of a kind exists in the namespace and fulfils a condition."""

    kind: str
    space: str
    test: Callable[[Json], bool] = bool

    def do(self, cluster: Cluster) -> None:
        what = f"{self.kind} in {self.space} as the scenario needs it"
        cluster.wait(
            self.kind, lambda found: any(map(self.test, found)), namespace=self.space, timeout=SECONDS, what=what
        )


@dataclass(frozen=True)
class Deleted(_Final):
    """An object is deleted; its deletion is not awaited."""

    kind: str
    name: str
    space: str

    def do(self, cluster: Cluster) -> None:
        cluster.delete(self.kind, self.name, self.space or None)


@dataclass(frozen=True)
class AllDeleted(_Final):
    """All objects of a kind in a namespace are deleted at once."""

    kind: str
    space: str

    def do(self, cluster: Cluster) -> None:
        cluster.delete_all(self.kind, self.space, grace=0 if self.kind == "Pod" else None)


RESERVATIONS_DELETED = AllDeleted("Pod", RESERVATION_APP)


@dataclass(frozen=True)
class Edited(_Final):
    """An object is patched."""

    kind: str
    name: str
    change: Json
    space: str

    def do(self, cluster: Cluster) -> None:
        cluster.patch(self.kind, self.name, self.change, self.space)


@dataclass(frozen=True)
class Created(_Final):
    """An object is created."""

    doc: Json
    space: str

    def do(self, cluster: Cluster) -> None:
        cluster.create({**self.doc, "metadata": {**self.doc["metadata"], "namespace": self.space}})
