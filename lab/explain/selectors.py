"""Whether a pod may run on a node: nodeSelector, required node affinity, tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.objects.fields import Obj, whole
from lab.objects.views import NodeView


def node_mismatch(spec: Obj, node: NodeView) -> str:
    """Return why a pod spec's nodeSelector or required affinity excludes the node; empty if it does not."""
    wanted: Mapping[str, str] = spec.get("nodeSelector") or {}
    missing = [f"{key}={value}" for key, value in wanted.items() if node.labels.get(key) != value]
    if missing:
        return f"not labelled {', '.join(missing)}"
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = (affinity or {}).get("nodeSelectorTerms") or []
    if affinity and not any(_matches(term, node) for term in terms):
        return f"required node affinity does not match: {' or '.join(map(_text, terms)) or 'no terms'}"
    return ""


def tolerated(taint: str, tolerations: Iterable[Obj]) -> bool:
    """Whether a toleration covers a taint in kubectl's notation (``key=value:Effect``)."""
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


def _matches(term: Obj, node: NodeView) -> bool:
    """Whether all requirements of a term are met; an empty term matches nothing (Kubernetes API)."""
    sources = (("matchExpressions", node.labels), ("matchFields", {"metadata.name": node.name}))
    met = [_is_met(row, values) for key, values in sources for row in term.get(key) or []]
    return bool(met) and all(met)


def _is_met(row: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    operator, actual = row.get("operator", ""), values.get(row.get("key", ""))
    wanted = [str(value) for value in row.get("values") or []]
    match operator:
        case "In":
            return actual in wanted
        case "NotIn":
            return actual not in wanted
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
    number, bound = whole(actual), whole(wanted[0]) if wanted else None
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def _text(term: Obj) -> str:
    rows = [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
    words = [f"{row.get('key')} {row.get('operator')} {' '.join(map(str, row.get('values') or []))}" for row in rows]
    return " and ".join(word.strip() for word in words)
