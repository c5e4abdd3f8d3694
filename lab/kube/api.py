"""Read objects, lists and logs of one cluster; ``Cluster`` adds waits and writes."""

from __future__ import annotations

import builtins
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lab.errors import ApiFailed
from lab.kube.http import KubeTransport
from lab.kube.rest import Json, RestClient
from lab.kube.rest_mapper import POD, RestMapper
from lab.kube.transport import Transport

OWNER_LABEL = "kailab"
"""Label of everything that a lab creates in a cluster; its value is the lab's name."""

T = TypeVar("T")


class Api:
    """A cluster by its kubeconfig file and context; thread-safe, connects at the first request.

    Ignores the user's kubeconfig, current context and ``KUBECONFIG``. Without ``context`` it uses the current context
    of the file. ``origin`` is from where kailab copied that file, for messages. Tests pass a fake ``transport``.
    """

    def __init__(
        self, kubeconfig: Path, context: str | None = None, *, transport: Transport | None = None, origin: str = ""
    ) -> None:
        self.kubeconfig = kubeconfig
        self.context = context
        self.calls = RestClient(kubeconfig, context, lambda: transport or KubeTransport(kubeconfig, context), origin)
        self.kinds = RestMapper(lambda path: self.calls.json_or_none(path, f"API discovery {path}"))

    @property
    def cancel(self) -> threading.Event | None:
        """When set, waits stop within a second with Interrupted."""
        return self.calls.cancel

    @cancel.setter
    def cancel(self, event: threading.Event | None) -> None:
        self.calls.cancel = event

    @property
    def server(self) -> str:
        """URL of the API server. Raises ApiFailed for an invalid kubeconfig."""
        return self.calls.transport.server

    def version(self) -> str:
        """The API server's version, such as ``v1.34.4``. Raises ApiFailed."""
        return str(self.calls.json("GET", "/version", title="/version").get("gitVersion", ""))

    def kubectl(self, *args: str) -> str:
        """The kubectl command line for ``args`` in this cluster, for messages."""
        context = ["--context", self.context] if self.context else []
        return shlex.join(["kubectl", "--kubeconfig", str(self.kubeconfig), *context, *args])

    def get(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """One object, or None if it does not exist. ``kind`` is ``Pod``, or ``Kind.group`` when ambiguous."""
        resource = self.kinds.named(kind)
        path, title = resource.path(namespace, name), resource.title(namespace, name)
        return self.calls.json_or_none(path, title)

    def list(
        self, kind: str, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> builtins.list[Json]:
        """The objects of a kind, in all namespaces when ``namespace`` is None; empty if the CRD is not installed."""
        items, _ = self.calls.collection(self.kinds.named(kind), namespace, selector(labels, fields))
        return items

    def logs(
        self,
        pod: str,
        namespace: str,
        container: str | None = None,
        *,
        tail: int | None = None,
        seconds: int | None = None,
        previous: bool = False,
    ) -> str:
        """The log of a container (the pod's default one): its last ``tail`` lines, those of the last ``seconds``, or
        that of its previous run.
        """
        query = {"container": container or self._default_container(namespace, pod)}
        if tail is not None:
            query["tailLines"] = str(tail)
        if seconds is not None:
            query["sinceSeconds"] = str(seconds)
        if previous:
            query["previous"] = "true"
        path, title = POD.path(namespace, pod, "log"), f"log of {POD.title(namespace, pod)}"
        return self.calls.raw("GET", path, title=title, query=query).decode(errors="replace")

    def poll(
        self, check: Callable[[], T], *, until: Callable[[T], bool] = bool, timeout: float, interval: float = 0.25
    ) -> T:
        """Call ``check`` until ``until`` accepts its result or ``timeout`` expires; returns the last result.

        For conditions that no watch reports. Raises Interrupted.
        """
        from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

        retrying = Retrying(
            stop=stop_after_delay(timeout),
            wait=wait_fixed(interval),
            retry=retry_if_not_result(until),
            sleep=self.calls.pause,
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )
        return retrying(check)

    def healthy(self, timeout: float = 2.0) -> bool:
        """Whether the API server reports ready within ``timeout`` seconds."""
        try:
            self.calls.raw("GET", "/readyz", title="/readyz", timeout=timeout, attempts=1)
        except ApiFailed:
            return False
        return True

    def close(self) -> None:
        """Close idle connections; a later call opens new ones."""
        self.calls.close()

    def _default_container(self, namespace: str, pod: str) -> str:
        """The container of kubectl's annotation, or the first one."""
        obj = self.calls.json("GET", POD.path(namespace, pod), title=POD.title(namespace, pod))
        named = (obj.get("metadata", {}).get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
        return str(named or obj["spec"]["containers"][0]["name"])


def selector(labels: str | None, fields: str | None) -> dict[str, str]:
    """The query for a label selector and a field selector."""
    both = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in both.items() if value}
