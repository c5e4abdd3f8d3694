"""Rules on PodGroups, BindRequests and the schedulers of pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.findings import Finding
from lab.invariants.cluster_state import ClusterState
from lab.invariants.gpus import lines
from lab.invariants.model import breach
from lab.kai.names import KAI_SCHEDULER, SUBGROUP_LABEL
from lab.objects.fields import Obj
from lab.objects.kai import BindRequestView
from lab.objects.views import PodView
from lab.snapshot.pod_info import PodInfo


def gang_whole(state: ClusterState) -> Iterator[Finding]:
    """Of a PodGroup at least minMember pods are bound, or none (as in KAI's PodGroupInfo.IsStale)."""
    members: dict[tuple[str, str], list[PodInfo]] = {}
    for pod in state.pods:
        if pod.view.pod_group and state.mine(pod):
            members.setdefault((pod.view.namespace, pod.view.pod_group), []).append(pod)
    for key, pods in members.items():
        group = state.snapshot.get("PodGroup", key[1], key[0])
        bound = [pod for pod in pods if pod.bound]
        if group is None or not bound or any(pod.view.phase == "Succeeded" for pod in pods):
            continue
        for what, least, part in _parts(group, state.pod_groups[key].min_member, bound):
            if len(part) < least:
                yield breach(
                    "/".join(key),
                    f"PodGroup {'/'.join(key)}: {len(part)} of at least {least} pods{what} are bound",
                    lines(pods),
                )
                break


def group_exists(state: ClusterState) -> Iterator[Finding]:
    """The annotation pod-group-name names a PodGroup of the pod's namespace."""
    for pod in state.pods:
        view = pod.view
        if not view.pod_group or view.ended or view.deleting or not state.mine(pod):
            continue
        if (view.namespace, view.pod_group) not in state.pod_groups:
            yield breach(pod.key, f"{pod.title} names the PodGroup {view.pod_group}, which does not exist", (pod.line,))


def bind_ends(state: ClusterState) -> Iterator[Finding]:
    """KAI's binder completes each BindRequest."""
    for request in state.snapshot.bind_requests:
        if request.phase in ("Succeeded", "Failed"):
            continue
        groups = f", GPU groups {', '.join(request.gpu_groups)}" if request.gpu_groups else ""
        yield breach(
            # A recreated request for the same pod is the same breach.
            f"{request.namespace}/{request.pod}",
            f"pod {request.namespace}/{request.pod} is neither bound nor refused",
            (
                f"BindRequest {request.namespace}/{request.name}: node {request.node}{groups}, "
                f"{request.failed_attempts} failed attempts, phase {request.phase or 'none'} {request.reason}".rstrip(),
            ),
        )


def bound_as_requested(state: ClusterState) -> Iterator[Finding]:
    """KAI's scheduler takes a bound pod's GPU groups from its BindRequest (pkg/scheduler/api/pod_info, KAI 0.16.8)."""
    bound = {pod.key: pod for pod in state.pods if pod.bound and state.mine(pod)}
    for request in state.snapshot.bind_requests:
        pod = bound.get(f"{request.namespace}/{request.pod}")
        if pod is not None and (line := other_groups(request, pod.view)):
            yield breach(pod.key, f"{pod.title} is not in the GPU groups of its BindRequest", (pod.line, line))


def other_groups(request: BindRequestView, pod: PodView) -> str:
    """Evidence that a pod is in none of the GPU groups of its BindRequest; empty if it is, or is not bound."""
    if request.phase == "Failed" or not (pod.node and pod.gpu_groups and request.gpu_groups):
        return ""
    if set(pod.gpu_groups).intersection(request.gpu_groups):
        return ""
    asked, got = (", ".join(f"GPU group {one}" for one in groups) for groups in (request.gpu_groups, pod.gpu_groups))
    name = f"{request.namespace}/{request.name}"
    return f"BindRequest {name}: to {request.node}, {asked}; its pod is on {pod.node}, {got}"


def left_alone(state: ClusterState) -> Iterator[Finding]:
    """Pods of other schedulers have no GPU groups and received types of KAI."""
    for pod in state.pods:
        view = pod.view
        other = view.scheduler_name != KAI_SCHEDULER and not pod.is_reservation and not view.ended
        if other and (view.received_resource_type or view.gpu_groups):
            yield breach(
                pod.key,
                f"{pod.title} belongs to scheduler {view.scheduler_name or '(none)'}, but KAI labelled it",
                (pod.line, f"received-resource-type: {view.received_resource_type or '(none)'}"),
            )


def _parts(group: Obj, least: int, bound: Sequence[PodInfo]) -> Iterator[tuple[str, int, Sequence[PodInfo]]]:
    """The parts with a minimum: the group, or each of its subgroups; with minSubGroup the subgroups are elastic."""
    spec = group.get("spec") or {}
    subgroups = [sub for sub in spec.get("subGroups") or [] if sub.get("minMember")]
    if not subgroups:
        yield "", least, bound
    elif not spec.get("minSubGroup"):
        for sub in subgroups:
            part = [pod for pod in bound if pod.view.labels.get(SUBGROUP_LABEL) == sub["name"]]
            yield f" of subgroup {sub['name']}", int(sub["minMember"]), part
