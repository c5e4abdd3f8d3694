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
from lab.kai import cured_in, line_of

RETRIED, IN_STORM = "reservation-lost-on-retry", "reservation-lost-in-storm"
"""Defects of lab/kai/defects.toml that can be proven; these: the binder deletes the reservation pod of a shared GPU."""
ROLLED_BACK = "group-lost-on-rollback"
"""A bound pod has no GPU group, and the binder has rolled back a bind of it."""
UNCOUNTED = "unused-reservation-not-counted"
"""A node has more reservation pods than GPUs, and the binder has found one of them unused."""
OVER_PACKED = "over-packed-on-retry"
"""A GPU is shared by too many pods, and the first bind of one of them failed."""
PROOF_SECONDS = 2.0
"""How long after a violation by ``UNCOUNTED`` the binder may log its cause, on a busy machine."""

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

    Proofs are lines of the binder's log; where it cannot be read, nothing is proven.
    """
    possible = _possible(violation, scope)
    with suppress(LabError):
        if possible & {RETRIED, IN_STORM} and (found := _reservation_deleted(violation, scope, possible)):
            return found
        for defect, (message, texts) in _PROOFS.items():
            if defect in possible and (logged := _in_log(scope, message, texts(violation))):
                return _proven(violation, defect, f"log of binder: {logged}")
    return violation


def awaits_proof(violation: Violation, scope: Scope) -> bool:
    """Whether a proof may come within ``PROOF_SECONDS``: the binder is about to remove an unused reservation pod."""
    return not violation.defect and UNCOUNTED in _possible(violation, scope) and bool(_unused(violation))


def _possible(violation: Violation, scope: Scope) -> set[str]:
    """The known defects of the KAI version that break the violation's invariant."""
    breaking = next((one.defects for one in ALL if one.id == violation.rule), ())
    return set(breaking).intersection(known_defects_of(scope.kai_version))


def _proven(violation: Violation, defect: str, *proof: str) -> Violation:
    return replace(violation, defect=defect, evidence=(*violation.evidence, *proof))


def _reservation_deleted(violation: Violation, scope: Scope, possible: Collection[str]) -> Violation | None:
    """The binder deleted the reservation pod of a GPU group that a pod of the violation uses.

    A failed bind leaves its reason in the BindRequest, also after a later attempt succeeds: then that attempt deleted
    it (both seen with KAI 0.16.8).
    """
    for namespace, name, line in _pods(violation):
        if namespace == line_of(scope.kai_version).reservation_namespace:
            continue
        with suppress(LabError):
            if not (logged := _in_log(scope, _DELETED, _logged_groups(line))):
                continue
            request = scope.cluster.get("BindRequest", name, namespace) or {}
            reason = (request.get("status") or {}).get("reason")
            proof = [f"BindRequest {namespace}/{name} failed once: {reason}"] if reason else []
            if (defect := RETRIED if reason else IN_STORM) in possible:
                return _proven(violation, defect, *proof, f"log of binder: {logged}")
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
    """The BindRequests of the pods, as the binder logs them."""
    return {f'"BindRequest": {{"name":"{name}","namespace":"{namespace}"}}' for namespace, name, _ in _pods(violation)}


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
    breaking = {one.id: one.defects for one in ALL}

    def attributed(violation: Violation) -> Violation:
        defects = (proven.get((violation.side, group), "") for group in _groups(violation))
        defect = next((one for one in defects if one in breaking.get(violation.rule, ())), "")
        return replace(violation, defect=violation.defect or defect)

    return [attributed(one) for one in found]


def _groups(violation: Violation) -> set[str]:
    return set(_GROUP.findall("\n".join((violation.what, *violation.evidence))))


def _in_log(scope: Scope, message: str, about: Collection[str]) -> str:
    """The binder's first log line with a message and one of the texts in ``about``; empty without one."""
    namespace = line_of(scope.kai_version).namespace
    for pod in scope.cluster.list("Pod", namespace, labels="app=binder"):
        for line in scope.cluster.logs(pod["metadata"]["name"], namespace).splitlines():
            if message in line and any(text in line for text in about):
                return line.strip()
    return ""


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
    known = known_defects_of(kai_version)
    breaking = next((one.defects for one in ALL if one.id == violation.rule), ())
    defects = (violation.defect,) if violation.defect else tuple(name for name in breaking if name in known)
    cures = dict.fromkeys(cured_in(name, kai_version) or "none" for name in defects)
    return Cause(defects, tuple(cures), bool(violation.defect))
