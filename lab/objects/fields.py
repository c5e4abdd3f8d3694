"""Reads the parts of an API object that every view needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.kai.names import GPU_RESOURCE
from lab.objects.redact import redact

Obj = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """A condition of an object's status."""

    type: str
    status: str
    """True, False or Unknown."""
    reason: str = ""
    message: str = ""

    @classmethod
    def all_of(cls, obj: Obj) -> tuple[Condition, ...]:
        return tuple(
            cls(c.get("type", ""), c.get("status", ""), c.get("reason", ""), c.get("message", ""))
            for c in (obj.get("status") or {}).get("conditions") or []
        )


def parts(obj: Obj) -> tuple[Obj, Obj, Obj]:
    """Metadata, spec and status of an object; empty where it has none."""
    return obj.get("metadata") or {}, obj.get("spec") or {}, obj.get("status") or {}


def labels_of(meta: Obj) -> dict[str, str]:
    """The labels in an object's metadata."""
    return dict(meta.get("labels") or {})


def annotations_of(meta: Obj) -> dict[str, str]:
    """The annotations in an object's metadata, without vCluster's tokens."""
    return redact(dict(meta.get("annotations") or {}))


def is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    """Whether a condition of this type is True."""
    return any(c.type == kind and c.status == "True" for c in conditions)


def owner_of(meta: Obj) -> str:
    """The controller as ``Kind/name``, or nothing."""
    owners = meta.get("ownerReferences") or []
    return next((f"{o['kind']}/{o['name']}" for o in owners if o.get("controller")), "")


def gpus_in(resources: Obj | None) -> int:
    """Whole GPUs in a resource list."""
    return whole((resources or {}).get(GPU_RESOURCE)) or 0


def number(text: object) -> float | None:
    """A number, or None where the text is none."""
    try:
        return float(str(text))
    except ValueError:
        return None


def whole(text: object) -> int | None:
    """A whole number, or None where the text is none."""
    try:
        return int(str(text))
    except ValueError:
        return None
