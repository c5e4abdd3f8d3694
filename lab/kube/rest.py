"""Requests to one API server, with retries of what may be repeated and errors with a fix."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from lab.errors import ApiFailed, Interrupted
from lab.kube.errors import Unreachable, fix_for, may_repeat
from lab.kube.rest_mapper import Resource
from lab.kube.retry import retry
from lab.kube.transport import Reply, Transport, TransportError

log = logging.getLogger("lab.kube")

READ_SECONDS = 30.0
ATTEMPTS = 6
"""With pauses of 0.2 to 1.6 s, a call fails after about 5 s."""

MERGE_PATCH = "application/merge-patch+json"
# Server-side apply accepts JSON under this type (JSON is YAML) since Kubernetes 1.16.
APPLY_PATCH = "application/apply-patch+yaml"

Json = dict[str, Any]


class RequestOptions(TypedDict, total=False):
    """Options of a request."""

    query: Mapping[str, str] | None
    body: object
    content_type: str
    timeout: float
    """Seconds without any byte."""
    attempts: int


class RestClient:
    """Sends requests; thread-safe. The kubeconfig, context and origin are for messages.

    ``connect`` makes the transport at the first request, because loading the client library takes 0.3 s.
    """

    def __init__(
        self, kubeconfig: Path, context: str | None, connect: Callable[[], Transport], origin: str = ""
    ) -> None:
        self.kubeconfig = kubeconfig
        self.context = context
        self.origin = origin
        self.cancel: threading.Event | None = None
        self._connect = connect
        self._transport: Transport | None = None
        self._lock = threading.Lock()

    @property
    def transport(self) -> Transport:
        """The connection to the server. Raises ApiFailed for an invalid kubeconfig."""
        with self._lock:
            if self._transport is None:
                self._transport = self._connect()
            return self._transport

    def close(self) -> None:
        """Close idle connections; the next request opens new ones."""
        with self._lock:
            if self._transport is not None:
                self._transport.close()
                self._transport = None  # the kubeconfig may change before the next request

    def check_cancel(self) -> None:
        """Raise Interrupted if the run was cancelled."""
        if self.cancel is not None and self.cancel.is_set():
            raise Interrupted("interrupted while waiting for the cluster; completed changes are kept")

    def pause(self, seconds: float) -> None:
        """Sleep, or raise Interrupted as soon as the run is cancelled."""
        if self.cancel is None:
            time.sleep(seconds)
        else:
            self.cancel.wait(seconds)
            self.check_cancel()

    def json(self, method: str, path: str, *, title: str, **options: Unpack[RequestOptions]) -> Json:
        """Send a request whose answer is a JSON object; ``title`` names its target in messages.

        Raises ApiFailed with the status with which the server refused, or with status 0 if it did not answer.
        """
        return json_object(
            self.raw(method, path, title=title, **options),
            f"{method} {title}: {self.transport.server} did not answer with a Kubernetes object",
            fix="check that the server in the kubeconfig is an API server, not a proxy",
        )

    def json_or_none(self, path: str, title: str) -> Json | None:
        """GET a JSON object, or None with status 404. Raises ApiFailed."""
        try:
            return self.json("GET", path, title=title)
        except ApiFailed as error:
            if error.status == 404:
                return None
            raise

    def collection(self, resource: Resource, namespace: str | None, query: Mapping[str, str]) -> tuple[list[Json], str]:
        """The objects of a kind and the resourceVersion of the list; both empty where it is not served."""
        try:
            answer = self.json("GET", resource.path(namespace), title=resource.title(namespace), query=query)
        except ApiFailed as error:
            if error.status != 404:
                raise
            log.debug("the server does not have %s %s", resource.api_version, resource.kind)
            return [], ""
        # The items of a list lack apiVersion and kind.
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        items = [{**kind, **item} for item in answer.get("items") or []]
        return items, str(answer.get("metadata", {}).get("resourceVersion") or "")

    def raw(
        self,
        method: str,
        path: str,
        *,
        title: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float = READ_SECONDS,
        attempts: int = ATTEMPTS,
    ) -> bytes:
        """Send a request and return the body of its answer; arguments and errors are those of ``json``."""
        data = None if body is None else json.dumps(body).encode()
        return retry(
            lambda: self._once(method, path, title, dict(query or {}), data, content_type, timeout),
            when=lambda error: may_repeat(error, method),
            attempts=attempts,
            interval=0.2,
            max_interval=1.6,
            sleep=self.pause,
        )

    def open(self, path: str, query: Mapping[str, str], title: str, timeout: float) -> Reply:
        """Send a GET whose body the caller reads line by line. Raises ApiFailed."""
        try:
            reply = self.transport.send("GET", path, query, None, "", timeout)
            if reply.status == 200:
                return reply
            raw = reply.read()
        except TransportError as failure:
            raise self.unreachable(failure) from failure
        raise self._refused("GET", title, reply.status, raw)

    def unreachable(self, failure: TransportError) -> Unreachable:
        """The error for a request without an answer."""
        source = f"{self.kubeconfig}" + (f", context {self.context}" if self.context else "")
        if failure.tls:
            problem = "has an untrusted certificate"
            fix = "the cluster was probably recreated: get its kubeconfig again; 'kailab up' writes that of a lab's own"
        else:
            problem = "does not answer"
            fix = "check whether the cluster runs and this machine reaches it; 'kailab up' starts a lab's own"
        return Unreachable(f"the API server {self.transport.server} ({source}) {problem}: {failure}", failure, fix)

    def _refused(self, method: str, title: str, status: int, raw: bytes) -> ApiFailed:
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
            fix=fix_for(status, message, self.transport.server, self.kubeconfig, self.context, self.origin),
        )

    def _once(
        self, method: str, path: str, title: str, query: Json, data: bytes | None, content_type: str, timeout: float
    ) -> bytes:
        started = time.monotonic()
        try:
            reply = self.transport.send(method, path, query, data, content_type, timeout)
            raw = reply.read()
        except TransportError as failure:
            log.debug("%s %s: %s", method, path, failure)
            raise self.unreachable(failure) from failure
        log.debug("%s %s: %d in %.0f ms", method, path, reply.status, (time.monotonic() - started) * 1000)
        if not 200 <= reply.status < 300:
            raise self._refused(method, title, reply.status, raw)
        return raw


def json_object(raw: bytes, what: str, fix: str) -> Json:
    """Parse a JSON object. Raises ApiFailed, with ``what`` and the beginning of the answer, for anything else."""
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ApiFailed(what, evidence=[raw[:200].decode(errors="replace")], fix=fix)
    return answer
