"""Read the fields of an API object that every view needs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from lab.objects.redact import redact

Obj = Mapping[str, Any]

_SUFFIXES = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{letter: Decimal(1000) ** -power for power, letter in enumerate("mun", 1)},
}


def parts(obj: Obj) -> tuple[Obj, Obj, Obj]:
    """Metadata, spec and status of an object, each empty where it is missing."""
    return obj.get("metadata") or {}, obj.get("spec") or {}, obj.get("status") or {}


def labels_of(meta: Obj) -> dict[str, str]:
    """The labels in an object's metadata."""
    return dict(meta.get("labels") or {})


def annotations_of(meta: Obj) -> dict[str, str]:
    """The annotations in an object's metadata, without vCluster's tokens."""
    return redact(dict(meta.get("annotations") or {}))


def owner_of(meta: Obj) -> str:
    """The controller as ``Kind/name``, or an empty string."""
    owners = meta.get("ownerReferences") or []
    return next((f"{o['kind']}/{o['name']}" for o in owners if o.get("controller")), "")


def number(text: object) -> float | None:
    """The text as a number, or None where it does not parse."""
    try:
        return float(str(text))
    except ValueError:
        return None


def whole(text: object) -> int | None:
    """The text as an integer, or None where it does not parse."""
    try:
        return int(str(text))
    except ValueError:
        return None


def quantity(value: object) -> float:
    """Parse a Kubernetes quantity: ``250m`` is 0.25, ``1Gi`` is 1073741824. Raises ValueError."""
    text = str(value).strip()
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return float(Decimal(text.removesuffix(suffix)) * factor)
    return float(text)


def amounts(resources: Obj | None) -> dict[str, float]:
    """A resource list as numbers; a malformed quantity counts as 0."""
    return {name: _amount(value) for name, value in (resources or {}).items()}


def _amount(value: object) -> float:
    try:
        return quantity(value)
    except (ValueError, ArithmeticError):
        return 0.0
