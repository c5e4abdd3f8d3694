"""Whose an object is: before the lab applies one, it must be the lab's own or not exist.

Server-side apply with force takes over any object of the same name, and a removal by label then deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.errors import StepFailed
from lab.kube.api import OWNER_LABEL
from lab.kube.client import FIELD_MANAGER, Cluster
from lab.objects.fields import labels_of

_HELM = ("meta.helm.sh/release-namespace", "meta.helm.sh/release-name")
_MANAGED_BY = "app.kubernetes.io/managed-by"

BY_HELM = f"{_MANAGED_BY}=Helm"
"""Label that Helm sets on every object of a release (pkg/action/validate.go)."""

Obj = Mapping[str, Any]


def is_own(obj: Obj, lab: str) -> bool:
    """Whether the lab created an object: it has the lab's label, or none and was applied by kailab."""
    meta = obj["metadata"]
    owner = labels_of(meta).get(OWNER_LABEL)
    fields = meta.get("managedFields") or []
    applied = any((entry.get("manager"), entry.get("operation")) == (FIELD_MANAGER, "Apply") for entry in fields)
    return owner == lab or (not owner and applied)


def has_set_label(obj: Obj, key: str) -> bool:
    """Whether kailab was the last to set a label of an object, also one of others."""
    return any(
        entry.get("manager") == FIELD_MANAGER
        and f"f:{key}" in (((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {})
        for entry in obj["metadata"].get("managedFields") or []
    )


def owner_of(obj: Obj) -> str:
    """Who manages or created an object: another lab, a Helm release, a controller, or a client."""
    meta = obj["metadata"]
    labels, notes = labels_of(meta), meta.get("annotations") or {}
    if lab := labels.get(OWNER_LABEL):
        return f"belongs to lab {lab}"
    if all(key in notes for key in _HELM):
        return f"belongs to Helm release {'/'.join(notes[key] for key in _HELM)}"
    if manager := labels.get(_MANAGED_BY):
        return f"is managed by {manager}"
    entries = sorted(meta.get("managedFields") or [], key=lambda entry: str(entry.get("time", "")))
    by = f" by {entries[0].get('manager')}" if entries else ""
    return f"was created{by} at {meta.get('creationTimestamp', 'an unknown time')}"


def helm_release(obj: Obj) -> tuple[str, str]:
    """Namespace and name of the Helm release that an object belongs to; empty: none."""
    notes = obj["metadata"].get("annotations") or {}
    return str(notes.get(_HELM[0], "")), str(notes.get(_HELM[1], ""))


def helm_namespace(obj: Obj) -> str:
    """The namespace of the Helm release that an object belongs to; empty: none."""
    return helm_release(obj)[0]


def refuse_foreign(
    cluster: Cluster, lab: str, docs: Iterable[Obj], evidence: Sequence[str] = (), fix: str = ""
) -> None:
    """Raise StepFailed if an object of the same kind and name exists and is not the lab's.

    ``docs`` need only kind, apiVersion, name and namespace. The error names the owner; ``fix`` says how to do without
    the name, and the error how to hand the object over.
    """
    lines, commands = [], []
    for doc in docs:
        resource, meta = cluster.kinds.of(doc), doc["metadata"]
        kind, name = resource.qualified_kind, meta["name"]
        namespace = (meta.get("namespace") or "default") if resource.namespaced else None
        existing = cluster.get(kind, name, namespace)
        if existing is not None and not is_own(existing, lab):
            lines.append(f"{resource.title(namespace, name)} {owner_of(existing)}")
            where = ("-n", namespace) if namespace else ()
            commands.append(cluster.kubectl("label", kind.lower(), name, *where, f"{OWNER_LABEL}={lab}"))
    if lines:
        rest = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
        raise StepFailed(
            f"{lines[0]}{rest}: lab {lab} does not change it",
            evidence=(*(lines if len(lines) > 1 else ()), *evidence),
            fix=f"{fix or 'delete or rename it'}; or hand it over to the lab: {commands[0]}",
        )
