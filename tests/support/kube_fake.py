"""A strict fake of the HTTP below ``Cluster``: gives the declared answers; any other request fails the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.kube import Cluster
from lab.kube.transport import ExecOutcome, TransportError
from tests.support import builders

Json = dict[str, Any]
CUT = TransportError("Connection reset by peer")
REFUSED = TransportError("Connection refused", unsent=True)

PODS = "/api/v1/namespaces/ns/pods"
EVENTS = "/api/v1/namespaces/ns/events"
QUEUES = "/apis/scheduling.run.ai/v2/queues"


@dataclass(frozen=True)
class Request:
    """One request that the code under test sent."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str
    timeout: float


def status(code: int, message: str, **more: Any) -> tuple[int, Json]:
    """An error answer in the format of an API server."""
    return code, {"kind": "Status", "status": "Failure", "message": message, "code": code, **more}


def listing(*items: Json, version: str = "10") -> Json:
    """A list answer; items without apiVersion and kind, as servers send them."""
    bare = [{key: value for key, value in item.items() if key not in ("apiVersion", "kind")} for item in items]
    return {"kind": "List", "metadata": {"resourceVersion": version}, "items": bare}


class Stream:
    """The answer to a watch: events, then its end.

    Args:
        steps: ``(type, object)``, raw bytes, an exception to raise, or an Event to wait for.
        end: ``close`` ends the answer, ``hang`` keeps it open until the reader stops.
    """

    def __init__(self, *steps: Any, end: str = "hang") -> None:
        self.steps = steps
        self.end = end
        self.given_up = threading.Event()

    def lines(self) -> Iterator[bytes]:
        """The body."""
        for step in self.steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, threading.Event):
                if not step.wait(10):
                    raise AssertionError("the test did not continue the stream within 10 s")
            elif isinstance(step, bytes):
                yield step
            else:
                yield json.dumps({"type": step[0], "object": step[1]}).encode()
        if self.end == "hang" and not self.given_up.wait(10):
            raise AssertionError("the reader did not close the stream within 10 s")


@dataclass
class FakeReply:
    """See lab.kube.transport.Reply."""

    status: int
    content: bytes = b""
    stream: Stream | None = None
    closed: bool = False

    def read(self) -> bytes:
        """The whole body."""
        return self.content

    def lines(self) -> Iterator[bytes]:
        """The stream."""
        assert self.stream is not None, "a plain answer was read as a stream"
        yield from self.stream.lines()

    def shutdown(self) -> None:
        """End the stream."""
        assert self.stream is not None
        self.stream.given_up.set()

    def close(self) -> None:
        """Record that it is closed."""
        self.closed = True


@dataclass
class Route:
    """Declared answers to one method and path, used in order."""

    method: str
    path: str
    watch: bool
    query: Mapping[str, str] | None
    answers: list[Any]
    always: bool
    requests: list[Request] = field(default_factory=list)

    def takes(self, request: Request) -> bool:
        """Whether this route answers the request."""
        return (
            (self.method, self.path, self.watch) == (request.method, request.path, "watch" in request.query)
            and (self.query is None or self.query == request.query)
            and (self.always or bool(self.answers))
        )

    def __str__(self) -> str:
        return f"{self.method} {self.path}{' watch' if self.watch else ''} {self.query or ''}".strip()


class FakeApi:
    """A Transport; see lab.kube.transport."""

    server = "https://127.0.0.1:6443"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.routes: list[Route] = []
        self.unexpected: list[str] = []
        self.execs: list[tuple[str, list[tuple[str, str]]]] = []
        self.exec_answer: ExecOutcome | Exception | Callable[[Callable[[], bool]], ExecOutcome] | None = None
        self.closed = 0
        self._lock = threading.Lock()

    def on(
        self,
        method: str,
        path: str,
        *answers: Any,
        query: Mapping[str, str] | None = None,
        always: bool = False,
        watch: bool = False,
    ) -> Route:
        """Declare answers: a dict (200), ``(status, dict or text)``, an exception, or a Stream (a watch).

        ``always`` repeats a single answer any number of times; ``watch`` refuses a watch.
        """
        watch = watch or any(isinstance(answer, Stream) for answer in answers)
        route = Route(method, path, watch, query, list(answers), always)
        self.routes.append(route)
        return route

    def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, content_type: str, timeout: float
    ) -> FakeReply:
        """See Transport.send."""
        data = None if body is None else json.loads(body)
        request = Request(method, path, dict(query), data, content_type, timeout)
        with self._lock:
            self.requests.append(request)
            route = next((route for route in self.routes if route.takes(request)), None)
            if route is None:
                self.unexpected.append(f"{method} {path} {dict(query)}")
                known = "\n  ".join(str(r) for r in self.routes)
                raise AssertionError(f"request was not declared: {self.unexpected[-1]}\ndeclared:\n  {known}")
            route.requests.append(request)
            answer = route.answers[0] if route.always else route.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Stream):
            return FakeReply(200, stream=answer)
        code, content = answer if isinstance(answer, tuple) else (200, answer)
        return FakeReply(code, content.encode() if isinstance(content, str) else json.dumps(content).encode())

    def exec(
        self, path: str, query: Sequence[tuple[str, str]], timeout: float, cancelled: Callable[[], bool]
    ) -> ExecOutcome:
        """See Transport.exec."""
        self.execs.append((path, list(query)))
        assert self.exec_answer is not None, "no exec was declared"
        if isinstance(self.exec_answer, Exception):
            raise self.exec_answer
        return self.exec_answer if isinstance(self.exec_answer, ExecOutcome) else self.exec_answer(cancelled)

    def close(self) -> None:
        """Count the call."""
        self.closed += 1

    def unmet(self) -> list[str]:
        """Return undeclared requests and unused answers at the end of a test."""
        never = [f"declared but not asked for: {r}" for r in self.routes if r.answers and not r.always]
        return never + [f"asked for but not declared: {line}" for line in self.unexpected]


def pod(name: str, phase: str = "Pending", *, version: str = "1", uid: str = "", **more: Any) -> Json:
    """A pod of namespace ``ns``, Ready when it is Running."""
    meta = {"uid": uid or f"uid-{name}", "resourceVersion": version}
    obj = builders.pod(name, "ns", scheduler="kai-scheduler", phase=phase, container={"image": "i"}, **meta)
    for part, values in more.items():
        obj.setdefault(part, {}).update(values)
    return obj


def running(count: int) -> Any:
    """Return a predicate: whether this number of pods run."""
    return lambda pods: sum(p["status"]["phase"] == "Running" for p in pods) == count


def event(reason: str, message: str, about: Json, at: str, **more: Any) -> Json:
    """A warning event about an object."""
    meta = about["metadata"]
    involved = {"kind": about["kind"], "name": meta["name"], "namespace": "ns", "uid": meta["uid"]}
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": involved,
        "lastTimestamp": at,
        **more,
    }


def wait_for(cluster: Cluster, predicate: Any, timeout: float = 5, **more: Any) -> list[Json]:
    """Wait for pods in ``ns``."""
    return cluster.wait("Pod", predicate, namespace="ns", timeout=timeout, what="pods run", **more)
