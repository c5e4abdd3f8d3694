"""Errors of an API server with a fix, and the decision whether to repeat a request."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.errors import ApiFailed
from lab.kube.transport import TransportError


class Unreachable(ApiFailed):
    """The API server did not answer (status 0)."""

    def __init__(self, what: str, failure: TransportError, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.unsent = failure.unsent
        self.tls = failure.tls


@dataclass(frozen=True)
class ApiServer:
    """An API server in messages."""

    server: str
    """Its URL."""
    kubeconfig: Path
    context: str | None

    def unreachable(self, failure: TransportError) -> Unreachable:
        source = f"{self.kubeconfig}" + (f", context {self.context}" if self.context else "")
        if failure.tls:
            problem = "has an untrusted certificate"
            fix = "run 'lab up' to write the kubeconfig again; the cluster was probably recreated"
        else:
            problem = "does not answer"
            fix = "check with 'lab status' whether the cluster runs; 'lab up' starts a stopped one"
        return Unreachable(f"the API server {self.server} ({source}) {problem}: {failure}", failure, fix)

    def refused(self, method: str, title: str, status: int, raw: bytes) -> ApiFailed:
        """The error for an answer with an error status."""
        text = raw.decode(errors="replace").strip()
        evidence: list[str] = []
        try:
            answer = json.loads(text)
            message = str(answer["message"])
            causes = (answer.get("details") or {}).get("causes") or []
            evidence = [f"{c.get('field', '')}: {c.get('message', '')}".strip(": ") for c in causes][:10]
        except (ValueError, KeyError, TypeError, AttributeError):
            message = text[:300] or "no reason given"
        return ApiFailed(
            f"{method} {title}: {message} (HTTP {status})",
            status=status,
            evidence=[line for line in evidence if line and line not in message],
            fix=self._fix(status, message),
        )

    def _fix(self, status: int, message: str) -> str:
        if status == 401:
            return f"run 'lab up' to write {self.kubeconfig} again; its credentials are invalid"
        if "admission webhook" in message or "ValidatingAdmissionPolicy" in message:
            return "change the object as the admission check requires"
        if "failed calling webhook" in message:
            return "check whether the pods behind that webhook run"
        if status == 403:
            return f"use a context with more permissions than {self.context or self.kubeconfig}"
        if status in (400, 422):
            return "correct the object"
        if status == 404:
            return "create it first; for a kind, install its CRD"
        if status == 409:
            return "check the existing object"
        return f"check the log of the API server {self.server}"


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
