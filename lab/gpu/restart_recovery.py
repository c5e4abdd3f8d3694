"""Step ``gpu-heal``: after a restart of its nodes the lab has no pods left that only seem to hold a GPU.

When a node restarts, the kubelet admits its pods again before the device plugin has registered, and fails
those that hold a GPU with UnexpectedAdmissionError. KAI (0.16.8) leaves a failed reservation pod lying: its
GPU group still counts as placed while the kubelet takes the GPU for free.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.kai.names import RESERVATION_APP
from lab.objects.fields import Obj
from lab.objects.synced import OWNER_KIND_ANNOTATION, SyncedObject
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.text import count

_REFUSED = "UnexpectedAdmissionError"


@dataclass(frozen=True)
class BrokenReservation:
    """Pods to delete.

    Failed reservation pods, the fraction pods of their GPU groups, and other pods that a kubelet refused.
    """

    reservations: tuple[PodView, ...] = ()
    fractions: tuple[PodView, ...] = ()
    refused: tuple[PodView, ...] = ()

    @property
    def pods(self) -> tuple[PodView, ...]:
        """All of them; reservation pods first, so that nothing new joins their groups."""
        return (*self.reservations, *self.fractions, *self.refused)


@dataclass(frozen=True)
class GpuHeal(LabStep):
    """Pods that lost their GPU in a restart."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-plugin",)
    id: str = "gpu-heal"
    title: str = "Pods that lost their GPU"

    def effects(self) -> tuple[Effect, ...]:
        return (
            Effect(
                "cluster", "after a restart only: delete failed reservation pods with the fraction pods of their groups"
            ),
        )

    def observe(self, ctx: LabContext) -> Observed:
        broken = broken_pods(ctx)
        if broken.pods:
            return Observed.drifted("pods lost their GPU", [f"{_name(pod)}: {_why(pod)}" for pod in broken.pods])
        return Observed.ready("none")

    def apply(self, ctx: LabContext) -> None:
        """Raises ApiFailed."""
        heal_reservations(ctx)

    def verify(self, ctx: LabContext) -> None:
        """``apply`` ended when all were deleted; a pod that fails later is for the next run."""


def broken_pods(ctx: LabContext) -> BrokenReservation:
    """The pods that a restart left in the way, in all namespaces. Raises ApiFailed."""
    objects = ctx.cluster().list("Pod")
    reserving = [pod for pod in map(PodView.of, filter(_reserves, objects)) if not pod.deleting]
    rest = [pod for pod in map(PodView.of, itertools.filterfalse(_reserves, objects)) if not pod.deleting]
    reservations = [pod for pod in reserving if pod.phase == "Failed"]
    groups = {group for pod in reservations for group in pod.gpu_groups}
    refused = [pod for pod in rest if pod.phase == "Failed" and pod.reason == _REFUSED]
    fractions = [pod for pod in rest if not pod.ended and groups & set(pod.gpu_groups)]
    return BrokenReservation(tuple(reservations), tuple(fractions), tuple(refused))


def _reserves(obj: Obj) -> bool:
    """Whether a KAI made the pod to hold a GPU: the host's, or a tenant's own, whose pods the host has as copies."""
    return SyncedObject.of(obj).namespace == RESERVATION_APP


def heal_reservations(ctx: LabContext) -> BrokenReservation:
    """Delete what a restart left in the way, and say so; returns what was deleted. Raises ApiFailed."""
    broken = broken_pods(ctx)
    cluster = ctx.cluster()
    for pod in broken.pods:
        cluster.delete("Pod", pod.name, pod.namespace, grace=0)
    if broken.pods:
        ctx.notice(_told(broken))
    return broken


def _told(broken: BrokenReservation) -> str:
    gone = (
        f"{count(len(broken.reservations), 'failed reservation pod')},"
        f" {count(len(broken.fractions), 'fraction pod')} of their GPU groups,"
        f" {count(len(broken.refused), 'pod')} that a kubelet had refused"
    )
    bare = [_name(pod) for pod in (*broken.fractions, *broken.refused) if not _owned(pod)]
    after = f"nothing makes these again: {', '.join(bare)}" if bare else "their controllers make them again"
    return f"a restart took GPUs away from pods; deleted: {gone}; {after}"


def _owned(pod: PodView) -> bool:
    """Whether a controller makes the pod again; of a tenant's pod vCluster writes its kind into the host's copy."""
    return bool(pod.owner or pod.annotations.get(OWNER_KIND_ANNOTATION))


def _name(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"


def _why(pod: PodView) -> str:
    return f"{pod.phase} ({pod.reason})" if pod.reason else f"{pod.phase}, its reservation pod has failed"
