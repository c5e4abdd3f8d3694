"""Takes secrets out of text before a report or an artifact keeps it."""

from __future__ import annotations

import re

from lab.kube.redact import REDACTED

# A ServiceAccount token, wherever it was printed; those of vCluster's annotations are valid for ten years.
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+")
# Of a kubeconfig, also inside JSON.
_KUBECONFIG = re.compile(r'("?(?:client-key-data|client-certificate-data|token|password)"?\s*:\s*"?)[^\s"\',}]{8,}')
_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END [A-Z ]*PRIVATE KEY-----)", re.DOTALL)


def scrub(text: str) -> str:
    """The text without tokens, private keys and the credentials of a kubeconfig."""
    text = _KEY.sub(rf"\1{REDACTED}\2", text)
    text = _KUBECONFIG.sub(rf"\1{REDACTED}", text)
    return _TOKEN.sub(REDACTED, text)
