"""A small HTTP server for metrics and probes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lab.errors import LabError

Answer = tuple[int, str, str]
"""Status, content type and text."""


@contextlib.contextmanager
def serving(port: int, routes: Mapping[str, Callable[[], Answer]], host: str = "") -> Iterator[int]:
    """Answer GET requests for these paths until the end of the block; yields the port, a free one for 0.

    Raises LabError if the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            route = routes.get(self.path.partition("?")[0])
            status, kind, text = route() if route else (404, "text/plain", f"one of: {' '.join(routes)}\n")
            body = text.encode()
            with contextlib.suppress(ConnectionError):  # the client has given up
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            """Do not log requests."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise LabError(f"port {port} cannot be used: {error.strerror}", fix="choose another one with --port") from error
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
