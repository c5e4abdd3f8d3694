"""The probe's compiled HTTP server: its responses, and clients that misbehave."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.probe_world import Served, received

pytestmark = [pytest.mark.processes("probe"), pytest.mark.loopback]

GET = b"GET /health HTTP/1.1\r\nHost: a\r\n"


def status_of(answer: bytes) -> int:
    """The status of a response, after a check of its headers and body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    values = dict(field.split(": ", 1) for field in fields)
    assert first.startswith("HTTP/1.1 ")
    assert int(values["Content-Length"]) == len(body)
    assert values["Connection"] == "close"
    json.loads(body)
    return int(first.split()[1])


@pytest.mark.parametrize("path", ["/", "/facts", "/facts?verbose=1", "/health", "/v1/models"])
def test_readable_paths_answer_get_and_head(server: Served, path: str) -> None:
    answer, body = server.ask("GET", path)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.headers["Date"]
    assert json.loads(body)
    head, nothing = server.ask("HEAD", path)
    assert (head.status, nothing) == (200, b"")
    assert int(head.headers["Content-Length"]) > 0


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nothing", 404, None),
        ("GET", "/health/", 404, None),
        ("GET", "/v1/completions", 405, "POST"),
        ("POST", "/health", 405, "GET, HEAD"),
        ("DELETE", "/v1/models", 405, "GET, HEAD"),
        ("BREW", "/", 405, "GET, HEAD"),
    ],
)
def test_wrong_path_or_method_is_refused(
    server: Served, method: str, path: str, status: int, allow: str | None
) -> None:
    answer, body = server.ask(method, path)
    assert (answer.status, answer.headers["Allow"]) == (status, allow)
    assert json.loads(body)["error"]["code"] == status


@pytest.mark.parametrize(
    "request_",
    [
        GET + b"\r\n",
        b"GET http://any.where:80/health HTTP/1.1\r\nHost: a\r\n\r\n",
        (
            b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            b'3\r\n{"p\r\nb\r\nrompt":"a"}\r\n0\r\n\r\n'
        ),
    ],
)
def test_valid_raw_request_is_served(server: Served, request_: bytes) -> None:
    assert status_of(server.raw(request_)) == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),  # a TLS client hello
        (GET + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    ],
)
def test_invalid_raw_request_is_refused(server: Served, request_: bytes, status: int) -> None:
    assert int(server.raw(request_).split()[1]) == status


def test_request_sent_byte_by_byte_is_served(server: Served) -> None:
    body = b'{"prompt": "a b c"}'
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = server.raw(*(bytes([byte]) for byte in head + body))
    assert status_of(answer) == 200
    assert b'"text":"a b c"' in answer


def test_expect_100_continue_is_answered(server: Served) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\nExpect: 100-continue\r\n\r\n"
        )
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"prompt": "a"}')
        assert status_of(received(connection)) == 200


def test_client_that_keeps_sending_gets_the_refusal(server: Served) -> None:
    """If the server stopped reading, the kernel would reset the connection and drop the response."""
    answer, body = server.ask("POST", "/v1/completions", b"x" * 3_000_000)
    assert answer.status == 413
    assert "1 MiB" in json.loads(body)["error"]["message"]


def test_silent_clients_block_nobody(server: Served) -> None:
    silent = [server.connect() for _ in range(100)]
    assert server.ask("GET", "/health")[0].status == 200
    for connection in silent:
        connection.close()


def test_server_survives_clients_that_disconnect(server: Served) -> None:
    for part in (b"", b"GET /hea", b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"):
        with server.connect() as connection:
            connection.sendall(part)
    assert server.ask("GET", "/health")[0].status == 200


def test_concurrent_clients_get_their_own_responses(server: Served) -> None:
    def ask(number: int) -> str:
        response = server.post("/v1/completions", {"prompt": f"client {number} " * 2000, "max_tokens": 2})
        return str(response["choices"][0]["text"])

    with ThreadPoolExecutor(40) as pool:
        assert list(pool.map(ask, range(200))) == [f"client {number}" for number in range(200)]


def test_server_stops_at_once_on_a_signal(program: Path) -> None:
    server = Served(program)
    with server.connect() as connection:
        connection.sendall(b"GET /")
        assert server.stop() == 0
    server.close()
