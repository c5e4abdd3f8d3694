"""Whether a pod may go to a node: nodeSelector, required node affinity, tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.objects.fields import Obj, whole
from lab.objects.views import NodeView


def node_matches(spec: Obj, node: NodeView) -> str:
    """Why a pod spec's nodeSelector or required affinity excludes the node; empty when it does not."""
    wanted: Mapping[str, str] = spec.get("nodeSelector") or {}
    lacking = [f"{key}={value}" for key, value in wanted.items() if node.labels.get(key) != value]
    if lacking:
        return f"not labelled {', '.join(lacking)}"
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = (affinity or {}).get("nodeSelectorTerms") or []
    if affinity and not any(_term(term, node) for term in terms):
        return f"required node affinity does not match: {' or '.join(map(_told, terms)) or 'no terms'}"
    return ""


def tolerated(taint: str, tolerations: Iterable[Obj]) -> bool:
    """Whether one of the tolerations covers a taint as kubectl writes it (``key=value:Effect``)."""
    body, _, effect = taint.rpartition(":")
    key, _, value = body.partition("=")
    for toleration in tolerations:
        if toleration.get("effect") not in (None, "", effect):
            continue
        if toleration.get("operator") == "Exists":
            if toleration.get("key") in (None, "", key):
                return True
        elif toleration.get("key") == key and (toleration.get("value") or "") == value:
            return True
    return False


def _term(term: Obj, node: NodeView) -> bool:
    """Whether all requirements of one term hold; an empty term matches nothing (Kubernetes API)."""
    labels = [*(term.get("matchExpressions") or [])]
    fields = [*(term.get("matchFields") or [])]
    if not labels and not fields:
        return False
    return all(_holds(row, node.labels) for row in labels) and all(
        _holds(row, {"metadata.name": node.name}) for row in fields
    )


def _holds(row: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    key, operator = row.get("key", ""), row.get("operator", "")
    wanted = [str(value) for value in row.get("values") or []]
    there = values.get(key)
    if operator == "In":
        return there in wanted
    if operator == "NotIn":
        return there not in wanted
    if operator == "Exists":
        return there is not None
    if operator == "DoesNotExist":
        return there is None
    mine, bound = whole(there), whole(wanted[0]) if wanted else None
    if mine is None or bound is None:
        return False
    return mine > bound if operator == "Gt" else mine < bound


def _told(term: Obj) -> str:
    rows = [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
    words = [f"{row.get('key')} {row.get('operator')} {' '.join(map(str, row.get('values') or []))}" for row in rows]
    return " and ".join(word.strip() for word in words)
