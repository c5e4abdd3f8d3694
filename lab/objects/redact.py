"""Remove secrets from objects and text before they are shown or stored."""

from __future__ import annotations

import re
from typing import TypeVar, cast

TOKEN_PREFIX = "vcluster.loft.sh/token-"  # noqa: S105 - the name of an annotation, not a secret
"""vCluster's annotations on synced pods: ServiceAccount tokens in plain text, valid for ten years (vcluster#3574)."""

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole object, including a Secret's values."""

_CREDENTIALS = frozenset({"client-key-data", "client-certificate-data", "token", "password"})
"""Fields of a user in a kubeconfig (client-go, tools/clientcmd/api/v1), of TokenReview and of TokenRequest."""

REDACTED = "<redacted>"

# A JSON Web Token, such as a ServiceAccount token.
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+")
# A field of a kubeconfig, also inside JSON.
_FIELD = re.compile(rf'("?(?:{"|".join(sorted(_CREDENTIALS))})\\?"?\s*:\s*\\?"?)[^\s"\\\',}}<]{{8,}}')
_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----)", re.DOTALL)
# The same in base64, as in Secrets and kubeconfigs: "-----BEGIN " with PRIVATE, RSA PRIVATE or EC PRIVATE.
_PACKED_KEY = re.compile(r"LS0tLS1CRUdJTi(?:BQUklWQVRF|BSU0EgUFJJVkFUR|BFQyBQUklWQVRF)[A-Za-z0-9+/=]+")

T = TypeVar("T")


def redact(obj: T) -> T:
    """Return a deep copy of an object, or of a list of objects, without secrets.

    It removes values of Secrets, vCluster's tokens, kubectl's copies of objects, and credentials of kubeconfigs;
    ``redact_text`` cleans all other strings.
    """
    return cast("T", _copy(obj))


def redact_text(text: str) -> str:
    """Return the text without tokens, private keys and the credentials of a kubeconfig."""
    text = _KEY.sub(rf"\1{REDACTED}\2", text)
    text = _FIELD.sub(rf"\1{REDACTED}", text)
    return _TOKEN.sub(REDACTED, _PACKED_KEY.sub(REDACTED, text))


def _copy(value: object, *, secret: bool = False) -> object:
    # The items of a SecretList have no kind: ``secret`` marks them.
    if isinstance(value, dict):
        kind = value.get("kind")
        secret = secret or kind == "Secret"
        return {key: _field(key, inner, secret=secret, members=kind == "SecretList") for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner, secret=secret) for inner in value]
    return redact_text(value) if isinstance(value, str) else value


def _field(key: object, inner: object, *, secret: bool, members: bool) -> object:
    if members and key == "items":
        return _copy(inner, secret=True)
    if secret and key in ("data", "stringData"):
        return dict.fromkeys(inner, REDACTED) if isinstance(inner, dict) else REDACTED if inner else inner
    named = isinstance(key, str) and (key == _APPLIED or key.startswith(TOKEN_PREFIX))
    if named or (key in _CREDENTIALS and isinstance(inner, str) and inner):
        return REDACTED
    return _copy(inner)
