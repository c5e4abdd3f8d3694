"""Attribute a violation to a known defect of KAI, and to the release that cures it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace

from lab.errors import LabError
from lab.invariants.catalogue import ALL
from lab.invariants.model import Violation
from lab.invariants.scope import Scope, known_defects_of
from lab.kai import cured_in

RETRIED = "reservation-lost-on-retry"
"""The defect (lab/kai/lines/every.toml) that can be proven."""

_VIOLATED = frozenset(invariant.id for invariant in ALL if RETRIED in invariant.defects)
_POD = re.compile(r"^pod ([^/\s]+)/([^:\s]+)")


def with_cause(violation: Violation, scope: Scope) -> Violation:
    """Return the violation with the defect that caused it and the proof, or unchanged without proof.

    A failed bind leaves its reason in the BindRequest, also after a later attempt succeeds (seen with KAI 0.16.8). That
    attempt is the defect: it deletes the reservation pod of the GPU that it then assigns.
    """
    if violation.rule not in _VIOLATED or RETRIED not in known_defects_of(scope.kai_version):
        return violation
    for line in violation.evidence:
        if named := _POD.match(line):
            namespace, name = named.groups()
            with suppress(LabError):
                request = scope.cluster.get("BindRequest", name, namespace) or {}
                if reason := (request.get("status") or {}).get("reason"):
                    proof = f"BindRequest {namespace}/{name} failed once: {reason}"
                    return replace(violation, defect=RETRIED, evidence=(*violation.evidence, proof))
    return violation


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
