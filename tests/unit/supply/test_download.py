"""Downloads: a complete and verified file, or none."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3  # noqa: TID251 - responses of a fake server

from lab.errors import LabError, Unavailable
from lab.supply import download
from lab.tools import http

pytestmark = pytest.mark.loopback

BODY = b"a program" * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()


class Server:
    """Answers each path with its (status, headers, body) in order, and repeats the last."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[int, dict[str, str], bytes]]] = {}
        self.requested: list[str] = []
        self.url = ""

    def on(self, path: str, body: bytes = b"", status: int = 200, **headers: str) -> None:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.setdefault(path, []).append((status, {"Content-Length": str(len(body)), **fields}, body))

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.requested.append(path)
        answers = self.answers[path]
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = found.answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Stay silent."""

    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listening:
        found.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield found
        listening.shutdown()
        thread.join()


def refusal(server: Server, tmp_path: Path, path: str = "/x", **options: str) -> str:
    """Message of the refused download, which leaves no file behind."""
    with pytest.raises(Unavailable) as caught:
        download.fetch(server.url + path, tmp_path / "x", **options)
    assert list(tmp_path.iterdir()) == []
    return str(caught.value)


def test_verified_file_becomes_executable(server: Server, tmp_path: Path) -> None:
    server.on("/x", BODY)
    server.on("/x.sha256", f"{SHA256.upper()}  x\n".encode())
    target = download.fetch(f"{server.url}/x", tmp_path / "deep" / "x", checksum_url=f"{server.url}/x.sha256")
    assert target.read_bytes() == BODY
    assert target.stat().st_mode & 0o777 == 0o755


def test_interrupted_transfer_is_retried(server: Server, tmp_path: Path) -> None:
    server.on("/x", BODY[:100], Content_Length=str(len(BODY)))
    server.on("/x", BODY)
    assert download.fetch(f"{server.url}/x", tmp_path / "x", sha256=SHA256).read_bytes() == BODY
    assert server.requested == ["/x", "/x"]


def test_third_interrupted_transfer_fails_with_the_reason(server: Server, tmp_path: Path) -> None:
    server.on("/x", BODY[:100], Content_Length=str(len(BODY)))
    assert "cannot be downloaded: IncompleteRead(100 bytes read, 8900 more expected)" in refusal(server, tmp_path)
    assert len(server.requested) == 3


def test_server_errors_are_retried_and_client_errors_are_not(server: Server, tmp_path: Path) -> None:
    server.on("/x", status=503)
    assert "the server answered 503" in refusal(server, tmp_path)
    assert len(server.requested) == 3
    server.on("/none", status=404)
    assert "/none: the server answered 404 Not Found" in refusal(server, tmp_path, "/none")
    assert server.requested.count("/none") == 1


def test_error_names_a_closed_port(server: Server, tmp_path: Path) -> None:
    server.url = "http://127.0.0.1:9"
    assert "http://127.0.0.1:9/x cannot be downloaded: Connection refused" in refusal(server, tmp_path)


def test_wrong_checksum_is_refused(server: Server, tmp_path: Path) -> None:
    server.on("/x", BODY)
    assert f"has sha256 {SHA256}, expected {'0' * 64}" in refusal(server, tmp_path, sha256="0" * 64)


@pytest.mark.parametrize("text", [b"", b"\n", b"<!DOCTYPE html>", b"abc  x\n"])
def test_checksum_file_without_checksum_is_refused(server: Server, tmp_path: Path, text: bytes) -> None:
    server.on("/x.sha256", text)
    checksum = f"{server.url}/x.sha256"
    assert "/x.sha256 has no sha256 checksum" in refusal(server, tmp_path, checksum_url=checksum)
    assert server.requested == ["/x.sha256"]


def test_redirects_are_followed_up_to_a_limit(server: Server, tmp_path: Path) -> None:
    server.on("/x", status=302, Location="/y")
    server.on("/y", BODY)
    assert download.fetch(f"{server.url}/x", tmp_path / "x", sha256=SHA256).read_bytes() == BODY
    server.on("/loop", status=302, Location="/loop")
    assert "/loop: the server answered 302" in loop_refusal(server, tmp_path)


def loop_refusal(server: Server, tmp_path: Path) -> str:
    with pytest.raises(Unavailable) as caught:
        download.fetch(f"{server.url}/loop", tmp_path / "loop")
    return str(caught.value)


def test_redirect_from_https_to_http_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requested = []

    def get(url: str, *_: object) -> urllib3.BaseHTTPResponse:
        requested.append(url)
        return urllib3.HTTPResponse(status=302, headers={"Location": "http://b.example/x"})

    monkeypatch.setattr(http, "get", get)
    with pytest.raises(Unavailable, match=r"redirects to http://b\.example/x, which is not https"):
        download.fetch("https://a.example/x", tmp_path / "x")
    assert requested == ["https://a.example/x"]


def archive(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, body in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            tar.addfile(entry, io.BytesIO(body))
    return buffer.getvalue()


def test_member_is_extracted_from_an_archive(server: Server, tmp_path: Path) -> None:
    server.on("/x", archive(program=BODY))
    assert download.fetch(f"{server.url}/x", tmp_path / "x", member="program").read_bytes() == BODY
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


@pytest.mark.parametrize("body", [archive(other=b""), b"no archive"], ids=["another member", "no archive"])
def test_archive_without_the_member_is_refused(server: Server, tmp_path: Path, body: bytes) -> None:
    server.on("/x", body)
    assert "/x has no file program" in refusal(server, tmp_path, member="program")


def test_full_disk_is_not_retried(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("/x", BODY)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(LabError, match="cannot be written: No space left on device"):
        download.fetch(f"{server.url}/x", tmp_path / "x")
    assert server.requested == ["/x"]
