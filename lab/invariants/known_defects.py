"""Attribute a violation to a known defect of KAI, and to the release that cures it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from lab.errors import LabError
from lab.invariants.catalogue import ALL
from lab.invariants.gpus import UNUSED
from lab.invariants.model import Violation
from lab.invariants.scope import Scope, known_defects_of
from lab.invariants.workloads import other_groups
from lab.kai import cured_in, line_of
from lab.objects.kai import BindRequestView
from lab.objects.views import PodView

RETRIED, IN_STORM = "reservation-lost-on-retry", "reservation-lost-in-storm"
"""Defects of lab/kai/defects.toml that can be proven; these: the binder deletes the reservation pod of a shared GPU."""
ROLLED_BACK = "group-lost-on-rollback"
"""A bound pod has no GPU group, and the binder has rolled back a bind of it."""
UNCOUNTED = "unused-reservation-not-counted"
"""A node has more reservation pods than GPUs, and the binder has found one of them unused."""
OVER_PACKED = "over-packed-on-retry"
"""A GPU is shared by too many pods, and the first bind of one of them failed."""
COUNTED_ELSEWHERE = "counted-in-another-group"
"""A bound pod is in other GPU groups than its BindRequest has, so that KAI's scheduler counts it in those."""
PROOF_SECONDS = 2.0
"""How long after a violation by ``UNCOUNTED`` the binder may log its cause, on a busy machine."""

_BREAKING = {one.id: one.defects for one in ALL}
_POD = re.compile(r"^pod ([^/\s]+)/([^:\s]+)")
_GROUP = re.compile(r"GPU group ([^\s,]+)")
_DELETED = "Did not find fraction pod for gpu group, deleting reservation pod"
"""Message of the binder (0.16.8, pkg/binder/binding/resourcereservation); the field gpuGroup follows it."""
_ROLLBACK = "Rolling back for failed bind attempt"
"""Message of the binder (0.16.8, pkg/binder/binding/binder.go); the field BindRequest has the pod's name."""
_FAILED = "Failed to bind pod to node"
"""Message of the binder (0.7.0 to 0.17.0, pkg/binder/controllers/bindrequest_controller.go); fields as above."""


def with_cause(violation: Violation, scope: Scope) -> Violation:
    """Return the violation with the defect that caused it and the proof, or unchanged without proof.

    Proofs are lines of the binder's log, or a BindRequest; where they cannot be read, nothing is proven.
    """
    possible = {RETRIED, IN_STORM, COUNTED_ELSEWHERE, *_PROOFS}.intersection(
        _possible(violation.rule, scope.kai_version)
    )
    if not possible:
        return violation
    log: list[str] = []
    with suppress(LabError):
        log = _binder_log(scope)
    if found := _reservation_deleted(violation, line_of(scope.kai_version).reservation_namespace, possible, log):
        return found
    if COUNTED_ELSEWHERE in possible and (request := _other_request(violation, scope)):
        return _proven(violation, COUNTED_ELSEWHERE, request)
    for defect, (message, texts) in _PROOFS.items():
        if defect in possible and (logged := _logged(log, message, texts(violation))):
            return _proven(violation, defect, logged)
    return violation


def awaits_proof(violation: Violation, scope: Scope) -> bool:
    """Whether a proof may come within ``PROOF_SECONDS``: the binder is about to remove an unused reservation pod."""
    possible = _possible(violation.rule, scope.kai_version)
    return not violation.defect and UNCOUNTED in possible and bool(_unused(violation))


def _possible(rule: str, kai_version: str) -> tuple[str, ...]:
    """The defects of a KAI version that break an invariant."""
    known = known_defects_of(kai_version)
    return tuple(name for name in _BREAKING.get(rule, ()) if name in known)


def _proven(violation: Violation, defect: str, *proof: str) -> Violation:
    evidence = dict.fromkeys((*violation.evidence, *filter(None, proof)))
    return replace(violation, defect=defect, evidence=tuple(evidence))


def _reservation_deleted(
    violation: Violation, reservations: str, possible: Collection[str], log: Iterable[str]
) -> Violation | None:
    """The binder deleted the reservation pod of a GPU group that a pod of the violation uses.

    If a bind of that pod had failed, its next attempt or the deletion of its BindRequest did it (seen with KAI 0.16.8).
    """
    for namespace, name, line in _pods(violation):
        if namespace == reservations:
            continue
        if deleted := _logged(log, _DELETED, _logged_groups(line)):
            failed = _logged(log, _FAILED, {_request(namespace, name)})
            if (defect := RETRIED if failed else IN_STORM) in possible:
                return _proven(violation, defect, failed, deleted)
    return None


def _pods(violation: Violation) -> Iterator[tuple[str, str, str]]:
    """Namespace, name and line of the pods in the evidence."""
    for line in violation.evidence:
        if named := _POD.match(line):
            yield named[1], named[2], line


def _logged_groups(line: str) -> set[str]:
    return {f'"{group}"' for group in _GROUP.findall(line)}


def _unused(violation: Violation) -> set[str]:
    """GPU groups, as the binder logs them, of unused reservation pods."""
    return {group for line in violation.evidence if line.endswith(UNUSED) for group in _logged_groups(line)}


def _requests(violation: Violation) -> set[str]:
    return {_request(namespace, name) for namespace, name, _ in _pods(violation)}


def _request(namespace: str, name: str) -> str:
    """A pod's BindRequest, as the binder logs it."""
    return f'"BindRequest": {{"name":"{name}","namespace":"{namespace}"}}'


def _requests_without_group(violation: Violation) -> set[str]:
    return _requests(violation) if "in 0 GPU groups" in violation.what else set()


_PROOFS: dict[str, tuple[str, Callable[[Violation], set[str]]]] = {
    ROLLED_BACK: (_ROLLBACK, _requests_without_group),
    UNCOUNTED: (_DELETED, _unused),
    OVER_PACKED: (_FAILED, _requests),
}
"""Defect → the binder's message, and texts of the violation of which it must have one."""


def with_consequences(violations: Iterable[Violation]) -> list[Violation]:
    """Attribute to a proven defect what it broke besides, in the order given.

    A lost reservation pod breaks several invariants of its GPU group, some before the binder has logged the deletion
    (seen with KAI 0.16.8 in a storm of fractions: the pod was on another node than the group's reservation pod). So a
    violation has the defect if it names the same GPU group, and the defect is known to break its invariant.
    """
    found = list(violations)
    proven = {(one.side, group): one.defect for one in found if one.defect for group in _groups(one)}

    def attributed(violation: Violation) -> Violation:
        defects = (proven.get((violation.side, group), "") for group in _groups(violation))
        defect = next((one for one in defects if one in _BREAKING.get(violation.rule, ())), "")
        return replace(violation, defect=violation.defect or defect)

    return [attributed(one) for one in found]


def _groups(violation: Violation) -> set[str]:
    return set(_GROUP.findall("\n".join((violation.what, *violation.evidence))))


def _other_request(violation: Violation, scope: Scope) -> str:
    """A BindRequest with a pod or GPU group of the violation, whose pod has other groups; empty without one.

    The pod may have ended meanwhile: those that KAI put into the group because of it have not.
    """
    groups, pods = _groups(violation), {(namespace, name) for namespace, name, _ in _pods(violation)}
    with suppress(LabError):
        for request in map(BindRequestView.of, scope.cluster.list("BindRequest")):
            concerned = groups.intersection(request.gpu_groups) or (request.namespace, request.pod) in pods
            if not concerned:
                continue
            pod = PodView.of(scope.cluster.get("Pod", request.pod, request.namespace) or {})
            if line := other_groups(request, pod):
                return line
    return ""


def _binder_log(scope: Scope) -> list[str]:
    """Lines of the binder's log, as evidence shows them. Raises LabError."""
    namespace = line_of(scope.kai_version).namespace
    names = [pod["metadata"]["name"] for pod in scope.cluster.list("Pod", namespace, labels="app=binder")]
    return [
        f"log of binder: {line.strip()}" for name in names for line in scope.cluster.logs(name, namespace).splitlines()
    ]


def _logged(log: Iterable[str], message: str, about: Collection[str]) -> str:
    """The first line with a message and one of the texts in ``about``; empty without one."""
    return next((line for line in log if message in line and any(text in line for text in about)), "")


@dataclass(frozen=True)
class Cause:
    """The known defects of KAI behind a violation, and the releases that cure them."""

    defects: tuple[str, ...] = ()
    cured_in: tuple[str, ...] = ()
    """The first release without each; ``none`` if no release is known."""
    proven: bool = False
    """Whether the defect provably caused it; otherwise each of them may have."""


def cause_of(violation: Violation, kai_version: str) -> Cause:
    """The proven defect of a violation, or else those that this KAI version has and that break its invariant."""
    defects = (violation.defect,) if violation.defect else _possible(violation.rule, kai_version)
    cures = dict.fromkeys(cured_in(name, kai_version) or "none" for name in defects)
    return Cause(defects, tuple(cures), bool(violation.defect))
