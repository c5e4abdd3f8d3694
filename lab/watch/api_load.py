"""Counts the requests that a client sends to an API server, and the bytes that it receives."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from lab.kube.transport import ExecOutcome, Reply, Transport


class CountedTransport:
    """A transport that counts; the bytes are those of bodies, before HTTP and TLS."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self.requests: Counter[str] = Counter()
        """By verb: watch, or the HTTP method in lower case."""
        self.received = 0
        """Bytes."""

    @property
    def server(self) -> str:
        return self._transport.server

    def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, content_type: str, timeout: float
    ) -> Reply:
        with self._lock:
            self.requests["watch" if "watch" in query else method.lower()] += 1
        return _CountedReply(self._transport.send(method, path, query, body, content_type, timeout), self._count)

    def exec(
        self, path: str, query: Sequence[tuple[str, str]], timeout: float, cancelled: Callable[[], bool]
    ) -> ExecOutcome:
        return self._transport.exec(path, query, timeout, cancelled)

    def close(self) -> None:
        self._transport.close()

    def _count(self, number: int) -> None:
        with self._lock:
            self.received += number


class _CountedReply:
    def __init__(self, reply: Reply, count: Callable[[int], None]) -> None:
        self._reply = reply
        self._count = count

    @property
    def status(self) -> int:
        return self._reply.status

    def read(self) -> bytes:
        body = self._reply.read()
        self._count(len(body))
        return body

    def lines(self) -> Iterator[bytes]:
        for line in self._reply.lines():
            self._count(len(line) + 1)
            yield line

    def shutdown(self) -> None:
        self._reply.shutdown()

    def close(self) -> None:
        self._reply.close()
