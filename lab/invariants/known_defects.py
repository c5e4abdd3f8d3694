"""Attribute a violation to a known defect of KAI, with proof."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from lab.errors import LabError
from lab.invariants.catalogue import ALL
from lab.invariants.model import Violation
from lab.invariants.scope import Scope, known_defects_of

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
