"""HTTP to a Service or a pod through the API server, so that suites need no port-forward and no route to the pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.kube.api import Api
from lab.kube.rest import Json, json_object
from lab.kube.retry import retry

READ_SECONDS = 30.0


@dataclass(frozen=True)
class Proxy:
    """A server in a cluster.

    Args:
        cluster: where it is.
        kind: Service or Pod.
        namespace: its namespace.
        name: its name.
        port: number or name of a port; a Service's own port, not that of its pods.
    """

    cluster: Api
    kind: Literal["Service", "Pod"]
    namespace: str
    name: str
    port: int | str

    def get(self, path: str, *, timeout: float = READ_SECONDS, patience: float = 0.0) -> Json:
        """The JSON object at a path such as ``/facts``. Arguments and errors are those of ``raw``."""
        return self._object("GET", path, self.raw("GET", path, timeout=timeout, patience=patience))

    def post(self, path: str, body: Json, *, timeout: float = READ_SECONDS, patience: float = 0.0) -> Json:
        """The JSON object that answers a body. Arguments and errors are those of ``raw``."""
        return self._object("POST", path, self.raw("POST", path, body, timeout=timeout, patience=patience))

    def raw(
        self, method: str, path: str, body: Json | None = None, *, timeout: float = READ_SECONDS, patience: float = 0.0
    ) -> bytes:
        """The body of the answer.

        Args:
            method: GET, POST, ….
            path: from the server's root.
            body: sent as JSON.
            timeout: seconds without any byte.
            patience: seconds to go on while the API server finds nobody behind the Service, or cannot reach the
                pod (status 503): so it is for a moment after a pod became ready.

        Raises:
            ApiFailed: the API server or the server itself refused, with its status.
            Interrupted: the run was cancelled.
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
        """How messages name it."""
        return f"{self.kind} {self.namespace}/{self.name}:{self.port} "

    def _object(self, method: str, path: str, raw: bytes) -> Json:
        what = f"{method} {self.title}{path}: the answer is no JSON object"
        return json_object(raw, what, fix="look at the log of the server's pod")
