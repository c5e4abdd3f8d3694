"""Remove secrets from objects and text before they are shown or stored."""

from __future__ import annotations

import functools
import re
from typing import TypeVar, cast

TOKEN_PREFIX = "vcluster.loft.sh/token-"  # noqa: S105 - the name of an annotation, not a secret
"""vCluster's annotations on synced pods: ServiceAccount tokens in plain text, valid for ten years (vcluster#3574)."""

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole object, including a Secret's values."""

_CREDENTIALS = frozenset(
    {"client-key-data", "client-certificate-data", "token", "password", "auth", "identitytoken", "registrytoken"}
)
"""Fields of a user in a kubeconfig (client-go, tools/clientcmd/api/v1), of TokenReview, of TokenRequest, and of an
account in Docker's config.json."""

REDACTED = "<redacted>"

# A JSON Web Token, such as a ServiceAccount token.
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+")
# A field of a kubeconfig or of config.json, also inside JSON, and the value of an option or a variable. One expression
# for each word: a literal prefix is ten times as fast as alternatives.
_VALUES = tuple(
    re.compile(rf"""({word}(?:\\?"?\s*:\s*\\?"?|=["']?|(?<=--{word})[ ]["']?))[^\s"'\\,;&}}<]{{8,}}""")
    for name in ("token", "password", "passwd", "passphrase")
    for word in (name, name.upper())
) + tuple(
    re.compile(rf"""({word}\\?"?\s*:\s*\\?"?)[^\s"'\\,}}<]{{8,}}""")
    for word in ("client-key-data", "client-certificate-data", '"auth')
)
# Who an address is opened as; also the password of a proxy.
_USER = re.compile(r"(://)[^\s/@\"'\\<>]+(@)")
_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
# The same in base64, as in Secrets and kubeconfigs: "-----BEGIN " and anything but CERTIFICATE or PUBLIC KEY.
_PACKED_KEY = re.compile(r"LS0tLS1CRUdJTi(?!BDRVJUS|BQVUJMS)[A-Za-z0-9+/=]{16,}")

T = TypeVar("T")


def redact(obj: T) -> T:
    """Return a deep copy of an object, or of a list of objects, without secrets.

    It removes values of Secrets, vCluster's tokens, kubectl's copies of objects, and credentials of kubeconfigs;
    ``redact_text`` cleans all other strings.
    """
    return cast("T", _copy(obj))


def redact_text(text: str) -> str:
    """Return the text without tokens, private keys, passwords of addresses and the credentials of a kubeconfig.

    Give it whole texts: a private key has many lines.
    """
    return _short(text) if len(text) <= _SHORT else _redacted(text)


def _redacted(text: str) -> str:
    text = _KEY.sub(rf"\1{REDACTED}\2", text)
    text = _USER.sub(rf"\1{REDACTED}\2", text)
    for value in _VALUES:
        text = value.sub(rf"\1{REDACTED}", text)
    return _TOKEN.sub(REDACTED, _PACKED_KEY.sub(REDACTED, text))


_SHORT = 256
"""Longest text, in characters, whose result is kept: those of a Pod are the same in each of its versions."""
_short = functools.lru_cache(maxsize=8192)(_redacted)


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
