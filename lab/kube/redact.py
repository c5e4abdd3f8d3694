"""Takes secrets out of objects before anything shows or stores them."""

from __future__ import annotations

from typing import TypeVar, cast

TOKEN_PREFIX = "vcluster.loft.sh/token-"  # noqa: S105 - the name of an annotation, no secret
"""vCluster's annotations on synced pods: ServiceAccount tokens in clear, valid ten years (vcluster#3574)."""

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole object, a Secret's values included."""

REDACTED = "<redacted>"

T = TypeVar("T")


def redact(obj: T) -> T:
    """A deep copy of an object, or of a list of them, without vCluster's tokens and the values of Secrets."""
    return cast("T", _copy(obj))


def _copy(value: object) -> object:
    if isinstance(value, dict):
        secret = value.get("kind") == "Secret"
        return {
            key: dict.fromkeys(inner, REDACTED)
            if secret and key in ("data", "stringData") and isinstance(inner, dict)
            else REDACTED
            if isinstance(key, str) and (key == _APPLIED or key.startswith(TOKEN_PREFIX))
            else _copy(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_copy(inner) for inner in value]
    return value
