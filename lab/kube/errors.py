"""What goes wrong with an API server, in words a person can act on; and what is worth repeating."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.errors import ApiFailed
from lab.kube.transport import TransportError


class Unreachable(ApiFailed):
    """The API server gave no answer (status 0)."""

    def __init__(self, what: str, failure: TransportError, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.unsent = failure.unsent
        self.tls = failure.tls


@dataclass(frozen=True)
class ApiServer:
    """An API server as messages name it."""

    server: str
    """Its URL."""
    kubeconfig: Path
    context: str | None

    def unreachable(self, failure: TransportError) -> Unreachable:
        whose = f"{self.kubeconfig}" + (f", context {self.context}" if self.context else "")
        how = "is not to be trusted" if failure.tls else "does not answer"
        if failure.tls:
            fix = "the cluster was probably made anew: write its kubeconfig again with 'lab up'"
        else:
            fix = "see with 'lab status' whether the cluster runs; 'lab up' starts one that is stopped"
        return Unreachable(f"the API server {self.server} ({whose}) {how}: {failure}", failure, fix)

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
            return f"the credentials in {self.kubeconfig} are not valid: write it again with 'lab up'"
        if "admission webhook" in message or "ValidatingAdmissionPolicy" in message:
            return "change the object as the admission check says"
        if "failed calling webhook" in message:
            return "see whether the pods behind that webhook run"
        if status == 403:
            return f"this takes a context with more rights than {self.context or self.kubeconfig}"
        if status in (400, 422):
            return "correct the object"
        if status == 404:
            return "create it first; for a kind: install its CRD"
        if status == 409:
            return "look at the object that is in the way"
        return f"look at the log of the API server {self.server}"


def may_repeat(error: ApiFailed, method: str) -> bool:
    """Whether the same request may work in a moment and does no harm when it is repeated."""
    idempotent = method != "POST"
    if isinstance(error, Unreachable):
        return not error.tls and (idempotent or error.unsent)
    if error.status == 429:
        return True
    if error.status == 403 and "error looking up service account" in error.what:
        return True  # the namespace is so new that its default ServiceAccount is not made yet
    return idempotent and (error.status == 503 or (error.status == 500 and "etcdserver" in error.what))
