"""Explanations of whole workloads: their pods grouped by reason, so that a gang is explained once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from lab.explain.component_messages import of_event
from lab.explain.diagnosis import explain
from lab.explain.explanation import Explanation, PodStage
from lab.explain.lookup import LabSnapshot, no_such
from lab.explain.owners import Ref, above, kind_of, owners
from lab.findings import Finding
from lab.objects.fields import Obj, parts
from lab.objects.views import Condition
from lab.objects.workload import WORKLOADS, WorkloadView
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.text import count, one_line

_WELL = (PodStage.RUNNING, PodStage.SUCCEEDED)
_WORST = (
    PodStage.FAILED,
    PodStage.MISSING,
    PodStage.UNBOUND,
    PodStage.BOUND,
    PodStage.DELETING,
    PodStage.RUNNING,
    PodStage.SUCCEEDED,
)
_MESSAGES = 4


class FindingInShort(TypedDict):
    """A finding without its evidence."""

    rule: str
    what: str
    next: str


@dataclass(frozen=True)
class SameReason:
    """Pods in the same stage for the same reasons; the first is explained."""

    first: Explanation
    workloads: tuple[str, ...]
    """Their workloads, such as ``Job team/train``."""
    pods: tuple[str, ...]
    """Their names, or those of workloads whose pods are missing."""

    @property
    def title(self) -> str:
        """Such as ``Job team/train (10 pods)`` or ``Job team/a and 59 more (600 pods)``."""
        own = f"{self.first.kind} {self.first.namespace}/{self.first.name}"
        if len(self.pods) == 1:
            return own
        more = f" and {len(self.workloads) - 1} more" if len(self.workloads) > 1 else ""
        return f"{self.workloads[0]}{more} ({count(len(self.pods), self.first.kind.lower())})"

    @property
    def findings(self) -> tuple[FindingInShort, ...]:
        """Those of the first pod, whose evidence is not that of the others."""
        return tuple({"rule": one.rule, "what": one.what, "next": one.next} for one in self.first.findings)

    JSON = "workloads pods stage=first.stage summary=first.summary findings"


@dataclass(frozen=True)
class WorkloadExplanation:
    """Why the pods of a workload do not run, or that they run."""

    kind: str
    namespace: str
    name: str
    side: str
    owners: tuple[str, ...]
    """Its own controllers, the nearest first."""
    pods: Mapping[str, int]
    """Stage → number of pods."""
    reasons: tuple[SameReason, ...]
    """The worst stage first; running pods without a finding are omitted."""
    facts: Mapping[str, str]
    messages: tuple[str, ...] = ()
    """Conditions and warnings of the workload and its PodGroup, if no rule explains it."""
    unread: tuple[str, ...] = ()
    idle: bool = False
    """It wants no pods: it has ended, or has 0 replicas."""

    @property
    def stage(self) -> PodStage:
        """The worst stage of its pods; missing without pods."""
        if self.reasons:
            return self.reasons[0].first.stage
        return next((stage for stage in _WORST if self.pods.get(stage.value)), PodStage.MISSING)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all reasons."""
        return tuple(finding for one in self.reasons for finding in one.first.findings)

    @property
    def settled(self) -> bool:
        """Whether its pods run, it wants none, or a reason is known for each stage."""
        return bool(self.pods or self.reasons or self.idle) and all(one.first.findings for one in self.reasons)

    @property
    def summary(self) -> str:
        """Its pods by stage in one line."""
        words = [f"{self.pods[stage.value]} {stage.value}" for stage in _WORST if self.pods.get(stage.value)]
        return (
            f"{count(sum(self.pods.values()), 'pod')}: {', '.join(words)}"
            if words
            else ("wants no pods" if self.idle else "no pods")
        )

    JSON = "kind namespace name side stage summary settled facts findings unread owners pods reasons messages"


def grouped(snapshot: ClusterSnapshot, explanations: Iterable[Explanation]) -> tuple[SameReason, ...]:
    """Group unhealthy pods of one cluster by namespace, kind of workload, stage and reasons, the worst stage first."""
    known = owners(snapshot)
    found: dict[object, list[tuple[Explanation, Ref]]] = {}
    for one in explanations:
        if one.stage in _WELL and not one.findings:
            continue
        this = Ref(one.kind, one.namespace, one.name)
        top = known.workload(this)
        reasons = tuple((f.rule, _without_names(f.what, one, top)) for f in one.findings)
        key = (one.namespace, one.kind, top.kind, one.stage, reasons or (one.summary.partition(" for ")[0],))
        found.setdefault(key, []).append((one, top))
    made = (
        SameReason(
            members[0][0], tuple(dict.fromkeys(top.title for _, top in members)), tuple(one.name for one, _ in members)
        )
        for members in found.values()
    )
    return tuple(sorted(made, key=lambda same: _WORST.index(same.first.stage)))


def explain_workload(lab: LabSnapshot, kind: str, name: str, namespace: str, tenant: str = "") -> WorkloadExplanation:
    """Explain a workload of any kind: its pods are found by owner references and by its PodGroup.

    Raises:
        NoSuchPod: it does not exist and owns no pods, or the lab has no such tenant.
    """
    snapshot = lab.snapshot(tenant)
    this = Ref(kind_of(snapshot, kind) or kind, namespace, name)
    obj = snapshot.get(this.kind, name, namespace)
    pods = owners(snapshot).pods.get(this, ())
    if obj is None and not pods:
        raise no_such(snapshot.pod_names, f"{this.kind} {namespace}/{name}", name, namespace)
    raws = [raw for pod in pods if (raw := snapshot.get("Pod", pod.name, namespace)) is not None]
    found = [explain(*lab.cases_of(raw, tenant)) for raw in raws]
    stages = Counter(one.stage.value for one in found)
    found += [explain(*lab.cases_of(lacking, tenant)) for lacking in _lacking(snapshot, this)]
    reasons = grouped(snapshot, found)
    first = next((one.first for one in reasons), next(iter(found), None))
    explained = bool(found) and all(one.first.findings for one in reasons)
    return WorkloadExplanation(
        kind=this.kind,
        namespace=namespace,
        name=name,
        side=first.side if first else (f"tenant {tenant}" if tenant else ""),
        owners=tuple(ref.title for ref in above(snapshot, this)),
        pods=dict(stages),
        reasons=reasons,
        facts={key: text for key, text in first.facts.items() if key != "node"} if first else {},
        messages=() if explained else _messages(snapshot, this, obj),
        unread=first.unread if first else (),
        idle=not found and obj is not None and this.kind in WORKLOADS and WorkloadView.of(obj).want == 0,
    )


def _without_names(text: str, one: Explanation, top: Ref) -> str:
    facts = one.facts
    names = {one.name, top.name, facts.get("PodGroup", ""), facts.get("node", "")}
    for name in sorted(names - {""}, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", "*", text)
    return text


def _lacking(snapshot: ClusterSnapshot, workload: Ref) -> list[Obj]:
    """Return the workload, or the controllers below it, that want more pods than they have.

    A Deployment counts for its ReplicaSets.
    """
    found: list[Obj] = []
    for kind in WORKLOADS:
        for raw in snapshot.of(kind):
            view = WorkloadView.of({**raw, "kind": kind})
            ref = Ref(kind, view.namespace, view.name)
            lacks, of_deployment = view.have < view.want, view.owner.startswith("Deployment/")
            if ref == workload:
                wanted = lacks or view.paused
            else:
                wanted = lacks and not view.paused and not (kind == "ReplicaSet" and of_deployment)
                wanted = wanted and view.namespace == workload.namespace and workload in above(snapshot, ref)
            if wanted:
                found.append({**raw, "kind": kind})
    return found


def _messages(snapshot: ClusterSnapshot, workload: Ref, obj: Obj | None) -> tuple[str, ...]:
    """Return what controllers report about the workload and its PodGroup."""
    objs = [obj] if obj is not None else []
    for pod in owners(snapshot).pods.get(workload, ())[:1]:
        view = snapshot.pod(pod.name, pod.namespace)
        group = snapshot.get("PodGroup", view.pod_group, pod.namespace) if view is not None and view.pod_group else None
        objs += [group] if group is not None and group is not obj else []
    lines = [
        f"condition {c.type}={c.status} ({c.reason}): {one_line(c.message)}"
        for one in objs
        for c in Condition.all_of(one)
        if c.message or c.reason
    ]
    for one in objs:
        events = snapshot.events_about(parts(one)[0].get("uid", ""))
        lines += [of_event(event).line for event in reversed(events) if event.type == "Warning"]
    return tuple(lines[:_MESSAGES])
