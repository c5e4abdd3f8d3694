"""Base class of a lab's steps."""

from __future__ import annotations

from typing import Any

from lab.config import LabSpec
from lab.engine.step import Effect
from lab.kube.access_review import Permission
from lab.session.context import LabContext


class LabStep:
    """Defaults: no effects, and the step's objects are removed with the cluster if the lab made it."""

    spec: LabSpec

    @property
    def part_of(self) -> str:
        return "cluster" if self.spec.cluster.own else ""

    def wanted(self) -> object:
        return self.spec.model_copy(update={"tenants": ()})

    def creates(self, ctx: LabContext) -> tuple[dict[str, Any], ...]:
        """The objects that ``apply`` creates in the cluster, as far as they are known beforehand."""
        return ()

    def charts(self) -> tuple[tuple[str, str], ...]:
        """Name and version of the charts that ``creates`` renders; what is in one that is not here is not known."""
        return ()

    def permissions(self) -> tuple[Permission, ...]:
        """What ``apply`` needs in an existing cluster besides creating and removing its objects."""
        return ()

    def effects(self) -> tuple[Effect, ...]:
        return ()

    def verify(self, ctx: LabContext) -> None:
        pass

    def undo(self, ctx: LabContext) -> None:
        pass

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        return ()
