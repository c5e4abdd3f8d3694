"""Reads from one cluster: objects, lists and logs. What also waits and writes is ``Cluster``, on top of it."""

from __future__ import annotations

import builtins
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lab.errors import ApiFailed
from lab.kube.exec import read_log
from lab.kube.http import KubeTransport
from lab.kube.rest import Json, RestClient
from lab.kube.rest_mapper import RestMapper
from lab.kube.retry import poll
from lab.kube.transport import Transport

OWNER_LABEL = "kailab"
"""Label of everything the lab creates in a cluster; its value is the lab's name."""

T = TypeVar("T")


class Api:
    """A cluster by its kubeconfig file and context; thread-safe, and connected only when first used.

    The user's kubeconfig, current context and ``KUBECONFIG`` are never looked at.

    Args:
        kubeconfig: the file.
        context: a context in it; None takes the file's current one.
        transport: what carries the requests; tests pass a fake.
    """

    def __init__(self, kubeconfig: Path, context: str | None = None, *, transport: Transport | None = None) -> None:
        self.kubeconfig = kubeconfig
        self.context = context
        self.calls = RestClient(kubeconfig, context, lambda: transport or KubeTransport(kubeconfig, context))
        self.kinds = RestMapper(self.calls.discover)

    @property
    def cancel(self) -> threading.Event | None:
        """When set, waits stop within a second with Interrupted."""
        return self.calls.cancel

    @cancel.setter
    def cancel(self, event: threading.Event | None) -> None:
        self.calls.cancel = event

    @property
    def server(self) -> str:
        """URL of the API server. Raises ApiFailed when the kubeconfig cannot be used."""
        return self.calls.transport.server

    def kubectl(self, *args: str) -> str:
        """The kubectl command line that does ``args`` in this cluster, for messages."""
        context = ["--context", self.context] if self.context else []
        return shlex.join(["kubectl", "--kubeconfig", str(self.kubeconfig), *context, *args])

    def get(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """One object, or None where there is none. ``kind`` is ``Pod``, or ``Kind.group`` when ambiguous."""
        resource = self.kinds.named(kind)
        path, title = resource.path(namespace, name), resource.title(namespace, name)
        try:
            return self.calls.json("GET", path, title=title)
        except ApiFailed as error:
            if error.status == 404:
                return None
            raise

    def list(
        self, kind: str, namespace: str | None = None, labels: str | None = None, fields: str | None = None
    ) -> builtins.list[Json]:
        """The objects of a kind, of all namespaces when ``namespace`` is None.

        A known kind whose CRD is not installed has no objects: the list is empty.
        """
        items, _ = self.calls.collection(self.kinds.named(kind), namespace, selector(labels, fields))
        return items

    def logs(
        self, pod: str, namespace: str, container: str | None = None, tail: int | None = None, previous: bool = False
    ) -> str:
        """What a container wrote; of several the pod's default one. ``tail`` lines; ``previous`` run."""
        return read_log(self.calls, namespace, pod, container, tail=tail, previous=previous)

    def poll(
        self, check: Callable[[], T], *, until: Callable[[T], bool] = bool, timeout: float, interval: float = 0.25
    ) -> T:
        """Call ``check`` until its answer is right or time is up, for what no watch tells; returns the last answer.

        Raises:
            Interrupted: the run was cancelled.
        """
        return poll(check, until=until, timeout=timeout, interval=interval, sleep=self.calls.pause)

    def healthy(self, timeout: float = 2.0) -> bool:
        """Whether the API server says it is ready, within ``timeout`` seconds."""
        try:
            self.calls.raw("GET", "/readyz", title="/readyz", timeout=timeout, attempts=1)
        except ApiFailed:
            return False
        return True

    def close(self) -> None:
        """Close idle connections; a later call opens new ones."""
        self.calls.close()


def selector(labels: str | None, fields: str | None) -> dict[str, str]:
    """The query of a selection."""
    both = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in both.items() if value}
