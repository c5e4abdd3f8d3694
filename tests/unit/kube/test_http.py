"""The real transport against small servers on this machine: kubeconfig, proxies, watches, exec."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import certifi
import pytest
import urllib3  # noqa: TID251 - what the transport is made of

from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.kube.certificates import plain_pool
from lab.kube.http import KubeTransport, _configuration, _translated
from lab.kube.transport import TransportError

pytestmark = pytest.mark.loopback

PEM = Path(__file__).parents[2] / "data" / "loopback.pem"
"""A self-signed certificate of 127.0.0.1 and its key, for these tests only, valid until 2126."""


def kubeconfig(folder: Path, port: int, **cluster: Any) -> Path:
    """A kubeconfig whose current context is wrong: requests succeed only in the context ``right``."""
    server = {"server": f"http://127.0.0.1:{port}", **cluster}
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "wrong",
                "clusters": [
                    {"name": "right", "cluster": server},
                    {"name": "wrong", "cluster": {"server": "http://127.0.0.1:1"}},
                ],
                "users": [{"name": "me", "user": {"token": "tok"}}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in ("right", "wrong")],
            }
        )
    )
    return path


class Handler(BaseHTTPRequestHandler):
    """Echoes requests as JSON; ``/watch`` sends three lines in three chunks and keeps the connection open."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/watch"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in (b"one\ntw", b"o\n", b"three\n"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                self.wfile.flush()
            self.server.watched.wait(10)  # type: ignore[attr-defined]
            return
        self.answer()

    def do_PATCH(self) -> None:
        self.answer()

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        request = {
            "path": self.path,
            "authorization": self.headers.get("authorization"),
            "type": self.headers.get("Content-Type"),
            "body": self.rfile.read(length).decode(),
        }
        raw = json.dumps(request).encode()
        self.send_response(404 if "missing" in self.path else 200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.watched = threading.Event()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.watched.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


@pytest.fixture
def tls_port() -> Iterator[int]:
    """The port of a server that wants a client certificate; one certificate is authority, server and client."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(PEM))
    tls.load_cert_chain(PEM)
    tls.verify_mode = ssl.CERT_REQUIRED
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def with_certificates(folder: Path, port: int, **user: str) -> Path:
    """A kubeconfig like kind's."""
    certificate, key = (base64.b64encode(part.encode()).decode() for part in _parts(PEM.read_text()))
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": certificate}
    user = {"client-certificate-data": certificate, "client-key-data": key, **user}
    doc = {
        "current-context": "right",
        "clusters": [{"name": "kind", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "right", "context": {"cluster": "kind", "user": "me"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(doc))
    return path


def _parts(pem: str) -> tuple[str, str]:
    certificate, end, key = pem.partition("-----END CERTIFICATE-----\n")
    return certificate + end, key


def test_client_certificate_needs_no_client_library(
    tmp_path: Path, tls_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.kube.http._configuration", lambda *_: pytest.fail("the library was imported"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    transport = KubeTransport(with_certificates(tmp_path, tls_port), None)
    reply = transport.send("GET", "/x", {}, None, "", 5)
    assert (reply.status, json.loads(reply.read())["authorization"]) == (200, None)
    transport.close()


def test_certificate_of_another_authority_is_refused(tmp_path: Path, tls_port: int) -> None:
    path = with_certificates(tmp_path, tls_port)
    doc = json.loads(path.read_text())
    doc["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(
        Path(certifi.where()).read_bytes()
    ).decode()
    path.write_text(json.dumps(doc))
    with pytest.raises(TransportError) as caught:
        KubeTransport(path, "right").send("GET", "/x", {}, None, "", 5)
    assert caught.value.tls


@pytest.mark.parametrize("more", [{"token": "tok"}, {"client-certificate-data": "?"}], ids=["token", "damaged"])
def test_other_kubeconfigs_go_through_the_client_library(tmp_path: Path, more: dict[str, str]) -> None:
    assert plain_pool(with_certificates(tmp_path, 1), "right") is not None
    assert plain_pool(with_certificates(tmp_path, 1, **more), "right") is None
    assert plain_pool(kubeconfig(tmp_path, 1), "right") is None
    assert plain_pool(tmp_path / "missing", None) is None


def test_request_has_query_credentials_type_and_body(tmp_path: Path, port: int) -> None:
    transport = KubeTransport(kubeconfig(tmp_path, port), "right")
    assert transport.server == f"http://127.0.0.1:{port}"
    reply = transport.send("PATCH", "/api/v1/x", {"a": "1 2"}, b"{}", "application/merge-patch+json", 5)
    assert json.loads(reply.read()) == {
        "path": "/api/v1/x?a=1+2",
        "authorization": "Bearer tok",
        "type": "application/merge-patch+json",
        "body": "{}",
    }
    assert transport.send("GET", "/missing", {}, None, "", 5).status == 404
    transport.close()


def test_proxy_of_the_environment_is_not_used_for_loopback(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "not-mine"))
    transport = KubeTransport(kubeconfig(tmp_path, port), "right")
    assert transport.send("GET", "/x", {}, None, "", 5).status == 200
    refusing = KubeTransport(kubeconfig(tmp_path, port, **{"proxy-url": "http://127.0.0.1:1"}), "right")
    with pytest.raises(TransportError):
        refusing.send("GET", "/x", {}, None, "", 5)


def test_watch_lines_are_delivered_at_once_and_shutdown_ends_a_blocked_read(tmp_path: Path, port: int) -> None:
    reply = KubeTransport(kubeconfig(tmp_path, port), "right").send("GET", "/watch", {}, None, "", 60)
    lines: list[bytes] = []
    third = threading.Event()

    def read() -> None:
        try:
            for line in reply.lines():
                lines.append(line)
                if len(lines) == 3:
                    third.set()
        except TransportError:
            lines.append(b"cut")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert third.wait(5)
    assert lines == [b"one", b"two", b"three"]
    reply.shutdown()
    reader.join(2)
    assert not reader.is_alive()
    reply.close()
    reply.shutdown()  # a second shutdown has no effect


def test_timeout_and_refused_connection_are_told_apart(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = KubeTransport(kubeconfig(tmp_path, listener.getsockname()[1]), "right")
        with pytest.raises(TransportError, match="no answer within the timeout") as caught:
            silent.send("GET", "/x", {}, None, "", 0.1)
        assert not caught.value.unsent
    with pytest.raises(TransportError, match="Connection refused") as caught:
        silent.send("GET", "/x", {}, None, "", 1)
    assert caught.value.unsent


def test_untrusted_certificate_is_told_apart_from_a_cut_connection() -> None:
    for error, tls in (
        (ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"), True),
        (ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca"), True),
        (ssl.SSLEOFError(8, "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred"), False),
    ):
        with pytest.raises(TransportError, match=r"\[SSL: ") as caught, _translated():
            raise urllib3.exceptions.SSLError(error) from error
        assert caught.value.tls is tls


@pytest.mark.parametrize(
    ("content", "context", "message"),
    [
        (None, None, "No configuration found"),
        ("just words", None, "is invalid"),
        ("{}", "right", "context right, is invalid"),
    ],
)
def test_unusable_kubeconfig(tmp_path: Path, content: str | None, context: str | None, message: str) -> None:
    path = tmp_path / "k"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ApiFailed, match=message) as caught:
        Cluster(path, context).list("Pod")
    assert str(path) in caught.value.what


def test_default_configuration_of_the_client_is_unchanged(tmp_path: Path, port: int) -> None:
    from kubernetes.client import Configuration  # noqa: TID251 - to assert that it is unchanged

    before = Configuration.get_default_copy().host
    KubeTransport(kubeconfig(tmp_path, port), "right")
    assert Configuration.get_default_copy().host == before


# --- exec


def websocket_server(answer: Callable[[socket.socket], None], refuse: str = "") -> tuple[int, list[str]]:
    """Serve one WebSocket connection; return the port and a list that receives the lines of the handshake."""
    listener = socket.create_server(("127.0.0.1", 0))
    handshake: list[str] = []

    def serve() -> None:
        with listener, listener.accept()[0] as client:
            handshake.extend(client.recv(65536).decode().split("\r\n"))
            if refuse:
                client.sendall(f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(refuse)}\r\n\r\n{refuse}".encode())
                return
            key = next(line.split(": ")[1] for line in handshake if line.lower().startswith("sec-websocket-key"))
            digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
            client.sendall(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\nSec-WebSocket-Accept: "
                + base64.b64encode(digest)
                + b"\r\n\r\n"
            )
            answer(client)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1], handshake


def frame(channel: int, data: bytes) -> bytes:
    return bytes([0x82, len(data) + 1, channel]) + data


@pytest.mark.parametrize("goodbye", [b"\x88\x00", b""], ids=["close frame", "hang up"])
def test_exec_reads_each_channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goodbye: bytes) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    euro = "€".encode()

    def answer(client: socket.socket) -> None:
        frames = [frame(1, euro[:1]), frame(2, b"noise"), frame(1, euro[1:]), frame(3, b'{"status":"Success"}')]
        client.sendall(b"".join(frames) + goodbye)

    port, handshake = websocket_server(answer)
    transport = KubeTransport(kubeconfig(tmp_path, port), "right")
    query = [("container", "c"), ("command", "echo"), ("command", "a b")]
    outcome = transport.exec("/api/v1/namespaces/ns/pods/a/exec", query, 5, lambda: False)
    assert (outcome.out, outcome.err, outcome.status) == ("€", "noise", {"status": "Success"})
    assert handshake[0].startswith("GET /api/v1/namespaces/ns/pods/a/exec?container=c&command=echo&command=a+b ")
    assert "authorization: Bearer tok" in handshake


def test_refused_exec_includes_the_message_of_the_server(tmp_path: Path) -> None:
    port, _ = websocket_server(lambda client: None, refuse='{"message": "pods \\"a\\" not found"}')
    with pytest.raises(ApiFailed, match='pods "a" not found') as caught:
        KubeTransport(kubeconfig(tmp_path, port), "right").exec("/x", [], 5, lambda: False)
    assert caught.value.status == 404


def test_exec_ends_at_its_timeout_and_on_cancel(tmp_path: Path) -> None:
    for limit, cancel_after in ((0.1, 60.0), (60.0, 0.1)):
        port, _ = websocket_server(lambda client: client.settimeout(5) or client.recv(1))  # type: ignore[func-returns-value, arg-type]
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            KubeTransport(kubeconfig(tmp_path, port), "right").exec(
                "/x",
                [],
                limit,
                lambda s=started, a=cancel_after: time.monotonic() - s > a,  # type: ignore[misc]
            )
        assert time.monotonic() - started < 1.5


def test_remote_server_is_reached_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    remote = _configuration(kubeconfig(tmp_path, 1, server="https://api.example.com:6443"), "right")
    local = _configuration(kubeconfig(tmp_path, 1, server="https://172.18.0.2:6443"), "right")
    assert remote.proxy == "http://proxy.example:3128"
    assert local.no_proxy == "172.18.0.2"
