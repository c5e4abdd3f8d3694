"""Milestones by which the removal of a tenant is measured, and the result of a removal. Pure.

All are seconds since just before the command. "Gone" alone says little: a namespace can be gone while a cluster-wide
role remains, and a pod can be gone while its GPU is still held.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.engine.milestones import Milestone
from lab.errors import Leftovers

SCHEDULER_STOPPED = "scheduler stopped"
PODS_GONE = "pods gone"
GPUS_FREE = "GPUs free"
NAMESPACE_GONE = "namespace gone"
CLUSTER_CLEAN = "cluster scope clean"
HOST_UNDISTURBED = "host undisturbed"
READY_AGAIN = "ready again"

MEANING = {
    SCHEDULER_STOPPED: "the tenant's control plane is no longer Ready, so nothing in it is scheduled",
    PODS_GONE: "the host has none of the tenant's pods",
    GPUS_FREE: "a pod of the host runs on all GPUs that the tenant held",
    NAMESPACE_GONE: "the tenant's namespace is gone",
    CLUSTER_CLEAN: "nothing cluster-wide remains of the tenant",
    HOST_UNDISTURBED: "all other pods that were Ready have the same UID and restarts, and were Ready throughout",
    READY_AGAIN: "a tenant of the same name is Ready",
}
"""The seven milestones of a removal in their order."""


@dataclass(frozen=True)
class Removal:
    """Result of the removal of a tenant."""

    tenant: str
    milestones: tuple[Milestone, ...]
    """Only those that were requested."""
    grace: float | None
    """Termination grace period of its pods in seconds; None: each pod's own."""
    cut_grace: tuple[str, ...] = ()
    """Pods with a longer grace period, with their seconds."""
    left: tuple[str, ...] = ()
    """Leftovers of the tenant."""
    disturbed: tuple[str, ...] = ()
    """Pods of others that the removal affected."""

    @property
    def ok(self) -> bool:
        """Whether nothing remains, no other pod was affected, and every requested milestone was reached."""
        reached = all(milestone.seconds is not None for milestone in self.milestones)
        return reached and not self.left and not self.disturbed

    @property
    def seconds(self) -> float:
        """Seconds until the last milestone up to a clean cluster scope."""
        ends = (SCHEDULER_STOPPED, PODS_GONE, GPUS_FREE, NAMESPACE_GONE, CLUSTER_CLEAN)
        return max((at for name in ends if (at := self.at(name)) is not None), default=0.0)

    def at(self, name: str) -> float | None:
        """Seconds of a milestone; None: not reached or not requested."""
        return next((milestone.seconds for milestone in self.milestones if milestone.name == name), None)

    def raise_left(self) -> None:
        """Raise Leftovers if something of the tenant remains."""
        if self.left:
            raise Leftovers(
                f"tenant {self.tenant} was only partly removed",
                evidence=self.left,
                fix="remove the tenant again; delete by hand what remains after that",
            )

    JSON = "tenant ok seconds grace moments=milestones cut_grace left disturbed"
