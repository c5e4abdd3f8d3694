"""The HTTP interface that the client uses; http.py implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class TransportError(Exception):
    """No answer, or an incomplete one.

    ``unsent``: the request never reached the server, so that repeating it is safe. ``tls``: a certificate is not
    trusted, so that repeating is useless.
    """

    def __init__(self, text: str, *, unsent: bool = False, tls: bool = False) -> None:
        super().__init__(text)
        self.unsent = unsent
        self.tls = tls


class Reply(Protocol):
    """An answer with an unread body. Reading raises TransportError."""

    @property
    def status(self) -> int: ...

    def read(self) -> bytes: ...

    def lines(self) -> Iterator[bytes]:
        """The body line by line, as it arrives."""
        ...

    def shutdown(self) -> None:
        """End a ``lines`` that blocks another thread."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ExecOutcome:
    """The result of a command in a container."""

    out: str
    err: str
    status: Mapping[str, Any] | None
    """The Status object of the API server; None when the connection ended without one."""


class Transport(Protocol):
    """HTTP to one API server; unit tests pass a strict fake."""

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

        Raises TransportError when the connection breaks, TimeoutError after ``timeout`` seconds or when ``cancelled``
        returns true, and ApiFailed with the server's status when it refuses.
        """
        ...

    def close(self) -> None:
        """Close idle connections."""
        ...
