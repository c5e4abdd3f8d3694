"""Errors of an API server with a fix, and the decision whether to repeat a request."""

from __future__ import annotations

import re
from pathlib import Path

from lab.errors import ApiFailed
from lab.kube.transport import TransportError

_OF_ADMISSION = re.compile("exceeded quota|failed quota|violates PodSecurity|(minimum|maximum) .* usage per ")
"""Refusals by Kubernetes' own admission plugins (ResourceQuota, PodSecurity, LimitRanger) instead of RBAC."""


class Unreachable(ApiFailed):
    """The API server did not answer (status 0)."""

    def __init__(self, what: str, failure: TransportError, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.unsent = failure.unsent
        self.tls = failure.tls


def fix_for(status: int, message: str, server: str, kubeconfig: Path, context: str | None, origin: str = "") -> str:
    """The next action after an error status; ``origin`` is from where kailab copied the kubeconfig."""
    if status == 401 and origin:
        return f"renew the credentials of {origin}; kailab uses them from its next command on"
    if status == 401:
        return f"renew the credentials in {kubeconfig}; those of a lab's own cluster are written again by 'kailab up'"
    if "admission webhook" in message or "ValidatingAdmissionPolicy" in message:
        return "change the object as the admission check requires"
    if "failed calling webhook" in message:
        return "check whether the pods behind that webhook run"
    if status == 403 and _OF_ADMISSION.search(message):
        return "change the object, or the quota, limit or Pod Security level of its namespace, as the message says"
    if status == 403:
        return f"use a context with more permissions than {context or kubeconfig}"
    if status in (400, 422):
        return "correct the object"
    if status == 404:
        return "create it first; for a kind, install its CRD"
    if status == 409:
        return "check the existing object"
    return f"check the log of the API server {server}"


def may_repeat(error: ApiFailed, method: str) -> bool:
    """Whether the same request may work soon, and repeating it is safe."""
    idempotent = method != "POST"
    if isinstance(error, Unreachable):
        return not error.tls and (idempotent or error.unsent)
    if error.status == 429:
        return True
    if error.status == 403 and "error looking up service account" in error.what:
        return True  # the default ServiceAccount of a new namespace does not exist yet
    return idempotent and (error.status == 503 or (error.status == 500 and "etcdserver" in error.what))
