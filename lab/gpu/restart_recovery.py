"""Step ``gpu-heal``: after a restart of its nodes, no pod only seems to hold a GPU.

When a node restarts, the kubelet admits its pods again before the device plugin has registered, and fails those that
hold a GPU with UnexpectedAdmissionError. KAI (0.16.8) leaves a failed reservation pod in place: its GPU group still
counts as placed while the GPU is free to the kubelet.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.kai.names import RESERVATION_APP
from lab.objects.synced import OWNER_KIND_ANNOTATION
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.snapshot.pod_info import PodInfo
from lab.text import count

_REJECTED = "UnexpectedAdmissionError"


@dataclass(frozen=True)
class GpuHeal(LabStep):
    """Pods that lost their GPU in a restart."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-plugin",)
    id: str = "gpu-heal"
    title: str = "Pods that lost their GPU"

    def effects(self) -> tuple[Effect, ...]:
        what = "after a restart only: delete failed reservation pods with the fraction pods of their groups"
        return (Effect("cluster", what),)

    def observe(self, ctx: LabContext) -> Observed:
        pods = [pod for group in lost_pods(ctx) for pod in group]
        lost = [f"{pod.key}: {pod.view.phase} ({pod.view.reason or 'its reservation pod has failed'})" for pod in pods]
        return Observed.drifted("pods lost their GPU", lost) if lost else Observed.ready("none")

    def apply(self, ctx: LabContext) -> None:
        """Raises ApiFailed. A pod that fails later is for the next run."""
        reservations, fractions, rejected = lost_pods(ctx)
        lost = [*reservations, *fractions, *rejected]
        cluster = ctx.cluster()
        for pod in lost:
            cluster.delete("Pod", pod.view.name, pod.view.namespace, grace=0)
        if lost:
            # vCluster annotates the host's copy of a pod with the kind of its controller.
            bare = [
                pod.key
                for pod in (*fractions, *rejected)
                if not pod.view.owner and OWNER_KIND_ANNOTATION not in pod.view.annotations
            ]
            after = f"no controller recreates {', '.join(bare)}" if bare else "their controllers recreate them"
            ctx.notice(
                "deleted pods that lost their GPU in a restart:"
                f" {count(len(reservations), 'failed reservation pod')},"
                f" {count(len(fractions), 'fraction pod')} of their GPU groups,"
                f" {count(len(rejected), 'pod')} rejected by the kubelet; {after}"
            )


def lost_pods(ctx: LabContext) -> tuple[list[PodInfo], list[PodInfo], list[PodInfo]]:
    """Return failed reservation pods, the fraction pods of their GPU groups, and pods that a kubelet rejected.

    Reservation pods come first, so that no new pod joins their groups. Raises ApiFailed.
    """
    pods = [pod for pod in map(PodInfo.of, ctx.cluster().list("Pod")) if not pod.view.deleting]
    # Pods of the host's KAI, and copies of those of a tenant's own KAI.
    reserving = [pod for pod in pods if pod.synced.namespace == RESERVATION_APP]
    reservations = [pod for pod in reserving if pod.view.phase == "Failed"]
    groups = {group for pod in reservations for group in pod.view.gpu_groups}
    others = [pod for pod in pods if pod.synced.namespace != RESERVATION_APP]
    fractions = [pod for pod in others if not pod.view.ended and groups & set(pod.view.gpu_groups)]
    rejected = [pod for pod in others if pod.view.phase == "Failed" and pod.view.reason == _REJECTED]
    return reservations, fractions, rejected
