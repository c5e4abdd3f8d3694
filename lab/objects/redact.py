"""Takes secrets out of objects and of text before anything shows or stores them."""

from __future__ import annotations

import re
from typing import TypeVar, cast

TOKEN_PREFIX = "vcluster.loft.sh/token-"  # noqa: S105 - the name of an annotation, no secret
"""vCluster's annotations on synced pods: ServiceAccount tokens in clear, valid ten years (vcluster#3574)."""

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole object, a Secret's values included."""

_CREDENTIALS = frozenset({"client-key-data", "client-certificate-data", "token", "password"})
"""Of a user in a kubeconfig (client-go, tools/clientcmd/api/v1), and of TokenReview and TokenRequest."""

REDACTED = "<redacted>"

# A JSON Web Token, wherever it was printed: ServiceAccount tokens are.
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+")
# Of a kubeconfig, also inside JSON.
_FIELD = re.compile(rf'("?(?:{"|".join(sorted(_CREDENTIALS))})\\?"?\s*:\s*\\?"?)[^\s"\\\',}}<]{{8,}}')
_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----)", re.DOTALL)
# The same in base64, as Secrets and kubeconfigs hold it: "-----BEGIN " and then PRIVATE, RSA PRIVATE or EC PRIVATE.
_PACKED_KEY = re.compile(r"LS0tLS1CRUdJTi(?:BQUklWQVRF|BSU0EgUFJJVkFUR|BFQyBQUklWQVRF)[A-Za-z0-9+/=]+")

T = TypeVar("T")


def redact(obj: T) -> T:
    """A deep copy of an object, or of a list of them, without anything that opens a door.

    Values of Secrets, vCluster's tokens, kubectl's copies of objects, credentials of kubeconfigs, and in all other
    strings what ``redact_text`` finds.
    """
    return cast("T", _copy(obj))


def redact_text(text: str) -> str:
    """The text without tokens, private keys and the credentials of a kubeconfig."""
    text = _KEY.sub(rf"\1{REDACTED}\2", text)
    text = _FIELD.sub(rf"\1{REDACTED}", text)
    return _TOKEN.sub(REDACTED, _PACKED_KEY.sub(REDACTED, text))


def _copy(value: object, *, secret: bool = False) -> object:
    """A copy without secrets; ``secret``: it is known to be a Secret although it does not say so."""
    if isinstance(value, dict):
        kind = value.get("kind")
        secret = secret or kind == "Secret"
        return {key: _field(key, inner, secret=secret, members=kind == "SecretList") for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner, secret=secret) for inner in value]
    return redact_text(value) if isinstance(value, str) else value


def _field(key: object, inner: object, *, secret: bool, members: bool) -> object:
    """A field of an object; ``members``: of a list of Secrets, whose items do not say what they are."""
    if members and key == "items":
        return _copy(inner, secret=True)
    if secret and key in ("data", "stringData"):
        return dict.fromkeys(inner, REDACTED) if isinstance(inner, dict) else REDACTED if inner else inner
    named = isinstance(key, str) and (key == _APPLIED or key.startswith(TOKEN_PREFIX))
    if named or (key in _CREDENTIALS and isinstance(inner, str) and inner):
        return REDACTED
    return _copy(inner)
