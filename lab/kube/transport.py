"""What Cluster needs of HTTP: a request, a reply, a command in a container. http.py does it for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class TransportError(Exception):
    """No answer, or half of one.

    Args:
        text: what the connection said.
        unsent: the request never reached the server, so repeating it is safe whatever it does.
        tls: the two sides do not trust each other; repeating is useless.
    """

    def __init__(self, text: str, *, unsent: bool = False, tls: bool = False) -> None:
        super().__init__(text)
        self.unsent = unsent
        self.tls = tls


class Reply(Protocol):
    """An answer whose body has not been read yet."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    def read(self) -> bytes:
        """The whole body. Raises TransportError."""
        ...

    def lines(self) -> Iterator[bytes]:
        """The body line by line, as it comes. Raises TransportError."""
        ...

    def shutdown(self) -> None:
        """End a ``lines`` that another thread is blocked in."""
        ...

    def close(self) -> None:
        """Give the connection up."""
        ...


@dataclass(frozen=True)
class ExecOutcome:
    """What a command in a container gave back."""

    out: str
    err: str
    status: Mapping[str, Any] | None
    """The Status object of the API server; None when the connection ended without one."""


class Transport(Protocol):
    """What Cluster stands on; unit tests pass a strict fake."""

    @property
    def server(self) -> str:
        """URL of the API server."""
        ...

    def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, content_type: str, timeout: float
    ) -> Reply:
        """Send one request, once. ``timeout`` is seconds without any byte. Raises TransportError."""
        ...

    def exec(
        self, path: str, query: Sequence[tuple[str, str]], timeout: float, cancelled: Callable[[], bool]
    ) -> ExecOutcome:
        """Run a command in a container until it ends.

        Raises:
            TransportError: the connection broke.
            TimeoutError: it did not end within ``timeout`` seconds, or ``cancelled`` became true.
            ApiFailed: the server refused, with its status.
        """
        ...

    def close(self) -> None:
        """Close idle connections."""
        ...
