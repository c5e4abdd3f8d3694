"""Labels, annotations and PodGroups that the schedulers wrote, compared key by key. Pure.

Values that identify one run (UIDs, UUIDs, random suffixes, names) are replaced by ``<uid>`` and the like, so that the
remaining differences are those of the versions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.compare.kai_keys import meaning
from lab.compare.measure import histories, lanes_of, workload_of
from lab.compare.model import Difference
from lab.compare.recording import HOST, TENANT, PodSeen, Recording
from lab.compare.workload import Planned
from lab.kube import OWNER_LABEL
from lab.objects.kai import PodGroupView
from lab.objects.views import PodView
from lab.text import count

_FOREIGN = re.compile(
    r"^(vcluster\.loft\.sh/|([a-z0-9-]+\.)*kubernetes\.io/|([a-z0-9-]+\.)*k8s\.io/|cni\.|kubectl\.)"
    rf"|^({OWNER_LABEL}|controller-uid|job-name|pod-template-hash|controller-revision-hash)$"
)
"""Keys that Kubernetes, vCluster or kailab write, not a scheduler."""

_FORMS = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"-[a-z0-9]{7}-shared-gpu\b"), "-<random>-shared-gpu"),
    (re.compile(r"\d{4}-\d\d-\d\dT[0-9:.+Z-]+"), "<time>"),
)
"""binder/common/gpusharingconfigmap/config_map.go, KAI 0.16.8: seven random characters before ``-shared-gpu``."""


@dataclass(frozen=True)
class SchedulerMarks:
    """Keys and PodGroups that the scheduler of one run wrote."""

    keys: Mapping[tuple[str, str, str], str]
    """Lane, ``annotation`` or ``label``, and the key's meaning → ``key: normalized value``."""
    groups: Mapping[str, str]
    """Workload → description of its PodGroups."""


def marks_of(recording: Recording, planned: Sequence[Planned], *, by_host: bool) -> SchedulerMarks:
    """Keys and PodGroups that the scheduler of a run wrote: all keys that were not in the ``planned`` objects.

    With ``by_host`` the host's KAI schedules, and writes on the synced pods.
    """
    lives = histories(recording)
    lanes = lanes_of(lives)
    keys: dict[tuple[str, str, str], str] = {}
    members: dict[str, list[PodView]] = {}
    for uid, seen in lives.items():
        workload = workload_of(seen[0].pod.view)
        own = _last_on_host(recording, uid) if by_host else seen[-1]
        if own is None:
            continue
        members.setdefault(workload, []).append(own.pod.view)
        doc = next((one.doc for one in planned if one.workload == workload), {})
        for kind, name, text in _keys(own, seen[-1].pod.view, doc):
            keys[lanes[uid], kind, name] = text
    side = HOST if by_host else TENANT
    known = {one.group.name: one.group for one in recording.groups if one.side == side}
    return SchedulerMarks(keys, {workload: _describe(pods, known) for workload, pods in members.items()})


def differences(a: SchedulerMarks, b: SchedulerMarks) -> tuple[Difference, ...]:
    """Keys that only one side has, or with another value, each with its pods; then PodGroups."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    # A pod that only one side has tells nothing about keys.
    both = {lane for lane, *_ in a.keys} & {lane for lane, *_ in b.keys}
    for at in sorted({*a.keys, *b.keys}):
        lane, kind, name = at
        mine, other = a.keys.get(at, ""), b.keys.get(at, "")
        if mine != other and (lane in both or not (a.keys and b.keys)):
            found.setdefault((kind, name, mine, other), []).append(lane)
    rows = [
        Difference("annotation" if kind == "annotation" else "label", name, mine, other, tuple(lanes))
        for (kind, name, mine, other), lanes in found.items()
    ]
    for workload in sorted({*a.groups, *b.groups}):
        mine, other = a.groups.get(workload, ""), b.groups.get(workload, "")
        if mine != other:
            rows.append(Difference("PodGroup", workload, mine, other, ()))
    return tuple(rows)


def form(value: str, *views: PodView) -> str:
    """Normalize a value by the pod as both sides see it."""
    for view in views:
        owner = view.owner.partition("/")[2]
        # Longer names first: a pod's name begins with its owner's.
        for text, word in (
            (view.uid, "<uid>"),
            (view.name, "<name>"),
            (view.namespace, "<namespace>"),
            (owner, "<owner>"),
        ):
            value = re.sub(rf"(?<![a-z0-9]){re.escape(text)}(?![a-z0-9])", word, value) if text else value
    for pattern, word in _FORMS:
        value = pattern.sub(word, value)
    return value


def _last_on_host(recording: Recording, uid: str) -> PodSeen | None:
    return next((one for one in reversed(recording.pods) if (one.uid, one.side) == (uid, HOST)), None)


def _keys(own: PodSeen, virtual: PodView, doc: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Kind, meaning and text of each key that was not in the manifest."""
    view = own.pod.view
    for kind, found in (("annotation", view.annotations), ("label", view.labels)):
        there = _in_manifest(doc, f"{kind}s")
        for key, value in found.items():
            if key in there or _FOREIGN.match(key):
                continue
            what = meaning(key)
            shown = form(key, view, virtual) if what == "gpu_groups" else key
            yield kind, what or key, f"{shown}: {form(value, virtual, view)}"


def _in_manifest(doc: Mapping[str, object], part: str) -> set[str]:
    """The labels or annotations of a manifest and of its pod template."""
    spec = doc.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    keys: set[str] = set()
    for holder in (doc, template):
        meta = holder.get("metadata") if isinstance(holder, Mapping) else None
        found = meta.get(part) if isinstance(meta, Mapping) else None
        keys |= {str(key) for key in found} if isinstance(found, Mapping) else set()
    return keys


def _describe(pods: Sequence[PodView], known: Mapping[str, PodGroupView]) -> str:
    """The PodGroups of one workload's pods: how many, and their fields."""
    names = Counter(pod.pod_group for pod in pods)
    found: Counter[str] = Counter()
    for name in sorted(names):
        group, words = known.get(name), count(names[name], "pod")
        if group is not None:
            owner = group.owner.partition("/")[0] or "none"
            rank = group.priority_class or "no class"
            words = f"minMember {group.min_member}, {rank}, queue {group.queue}, owner {owner}, {words}"
        if name:
            found[words] += 1
    return "; ".join(f"{count} × ({words})" for words, count in found.items())
