"""Whose doing a violation is, where a known defect of KAI has left its mark."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from lab.errors import LabError
from lab.invariants.catalogue import ALL
from lab.invariants.model import Violation
from lab.invariants.scope import Scope, known_faults

RETRIED = "reservation-lost-on-retry"
"""The defect (lab/kai/lines/every.toml) that can be proven."""

_BROKEN_BY_IT = frozenset(invariant.id for invariant in ALL if RETRIED in invariant.defects)
_POD = re.compile(r"^pod ([^/\s]+)/([^:\s]+)")


def with_cause(violation: Violation, scope: Scope) -> Violation:
    """The violation with the defect of this KAI version that did it, and the proof; unchanged where there is none.

    A bind that failed leaves its reason in the BindRequest, also when a later attempt succeeds (seen with KAI 0.16.8).
    What that later attempt does is the defect: it takes away the reservation pod of the GPU that it then gives.
    """
    if violation.rule not in _BROKEN_BY_IT or RETRIED not in known_faults(scope.kai_version):
        return violation
    for line in violation.evidence:
        if named := _POD.match(line):
            namespace, name = named.groups()
            with suppress(LabError):  # without proof it stays what it is
                request = scope.cluster.get("BindRequest", name, namespace) or {}
                if reason := (request.get("status") or {}).get("reason"):
                    proof = f"BindRequest {namespace}/{name} had failed once: {reason}"
                    return replace(violation, defect=RETRIED, evidence=(*violation.evidence, proof))
    return violation
