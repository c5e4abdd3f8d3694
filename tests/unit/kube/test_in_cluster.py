"""The credentials of a pod: its API server, its token, which the kubelet replaces."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3  # noqa: TID251 - stands in for the pool with TLS

from lab.errors import ApiFailed, SpecError
from lab.kube.in_cluster import InClusterTransport, own_cluster, own_namespace

HOST = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, text in {"token": "first\n", "ca.crt": "", "namespace": "kailab-watch"}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def tokens() -> Iterator[tuple[int, list[str]]]:
    """A server's port, and the tokens that it was sent."""
    seen: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["authorization"])
            body = json.dumps({"kind": "List", "items": []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, seen
    server.shutdown()
    server.server_close()


@pytest.mark.loopback
def test_replaced_token_is_used_at_once(account: Path, tokens: tuple[int, list[str]]) -> None:
    port, seen = tokens
    transport = InClusterTransport(account, HOST)
    transport.server, transport._pool = f"http://127.0.0.1:{port}", urllib3.PoolManager(retries=False)
    cluster = own_cluster(transport)
    assert cluster.list("Pod") == []
    (account / "token").write_text("second\n")
    assert cluster.list("Pod") == []
    assert seen == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    ("host", "server"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_server_is_that_of_the_environment(account: Path, host: str, server: str) -> None:
    assert InClusterTransport(account, {**HOST, "KUBERNETES_SERVICE_HOST": host}).server == server


def test_namespace_is_the_pods(account: Path) -> None:
    assert own_namespace(account) == "kailab-watch"


def test_outside_of_a_pod_it_is_refused(account: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="does not run in a pod"):
        InClusterTransport(account, {})
    with pytest.raises(SpecError):
        InClusterTransport(tmp_path / "nothing", HOST)


def test_commands_in_containers_are_refused(account: Path) -> None:
    with pytest.raises(ApiFailed):
        InClusterTransport(account, HOST).exec("/x", [], 1.0, lambda: False)
