"""Connections by kubeconfigs with certificates inside, as kind and vCluster write them, without the client library.

Importing that library takes 0.25 s of CPU (measured with kubernetes 37.0.2, Python 3.11, on a shared AMD EPYC), which
is much of a short command. Every other kubeconfig goes through it; see ``http``.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.serialization import yaml_documents

_CLUSTER = {"server", "certificate-authority-data"}
_USER = {"client-certificate-data", "client-key-data"}


def plain_pool(kubeconfig: Path, context: str | None) -> tuple[str, Any] | None:
    """URL of the server and a connection pool of urllib3; None for a kubeconfig with anything else in it."""
    try:
        (doc,) = yaml_documents(kubeconfig.read_text())
        chosen = _named(doc["contexts"], context or doc["current-context"])["context"]
        cluster = _named(doc["clusters"], chosen["cluster"])["cluster"]
        user = _named(doc["users"], chosen["user"])["user"]
        if set(cluster) != _CLUSTER or set(user) != _USER or not cluster["server"].startswith("https://"):
            return None
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        own = b"\n".join(base64.b64decode(user[key]) for key in sorted(_USER))
        return cluster["server"].rstrip("/"), _pool(authority, own)
    except Exception:  # noqa: BLE001 - the library says what is wrong with the file, or knows more than this module
        return None


def _named(entries: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _pool(authority: str, own: bytes) -> Any:
    import urllib3  # noqa: TID251 - the door's second half
    from urllib3.util.ssl_ import create_urllib3_context  # noqa: TID251 - the door's second half

    context = create_urllib3_context()
    context.load_verify_locations(cadata=authority)
    with tempfile.NamedTemporaryFile(prefix="kailab-") as file:  # OpenSSL reads keys from files only; mode 0600
        file.write(own)
        file.flush()
        context.load_cert_chain(file.name)
    return urllib3.PoolManager(maxsize=64, retries=False, ssl_context=context)
