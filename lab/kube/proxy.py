"""HTTP to a Service or a pod through the API server's proxy, without port-forward or a route to the pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.kube.api import Api
from lab.kube.rest import Json, json_object
from lab.kube.retry import retry

READ_SECONDS = 30.0


@dataclass(frozen=True)
class Proxy:
    """An HTTP server in a cluster; ``port`` is the number or name of a port, for a Service its own port."""

    cluster: Api
    kind: Literal["Service", "Pod"]
    namespace: str
    name: str
    port: int | str

    def get(self, path: str, *, timeout: float = READ_SECONDS, patience: float = 0.0) -> Json:
        """GET the JSON object at a path such as ``/facts``. Arguments and errors are those of ``raw``."""
        return self._object("GET", path, self.raw("GET", path, timeout=timeout, patience=patience))

    def post(self, path: str, body: Json, *, timeout: float = READ_SECONDS, patience: float = 0.0) -> Json:
        """POST a body and return the answer, a JSON object. Arguments and errors are those of ``raw``."""
        return self._object("POST", path, self.raw("POST", path, body, timeout=timeout, patience=patience))

    def raw(
        self, method: str, path: str, body: Json | None = None, *, timeout: float = READ_SECONDS, patience: float = 0.0
    ) -> bytes:
        """Send a request with a JSON body and return the body of the answer.

        ``timeout`` is in seconds without any byte. ``patience`` is the seconds to retry while the API server has no
        endpoint for the Service or cannot reach the pod (status 503), as just after a pod became ready. Raises
        ApiFailed with the status of the API server or of the server itself, and Interrupted.
        """
        calls = self.cluster.calls
        where = self.cluster.kinds.named(self.kind).path(
            self.namespace, f"{self.name}:{self.port}", f"proxy/{path.lstrip('/')}"
        )
        return retry(
            lambda: calls.raw(method, where, title=f"{self.title}{path}", body=body, timeout=timeout),
            when=lambda error: error.status == 503,
            timeout=patience,
            interval=0.5,
            sleep=calls.pause,
        )

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}:{self.port} "

    def _object(self, method: str, path: str, raw: bytes) -> Json:
        what = f"{method} {self.title}{path}: the answer is not a JSON object"
        return json_object(raw, what, fix="check the log of the server's pod")
