"""Downloads: a complete and verified file, or none."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3  # noqa: TID251 - responses of a fake server

from lab.errors import Interrupted, LabError, Unavailable
from lab.supply import download
from lab.tools import http

pytestmark = pytest.mark.loopback

BODY = b"a program" * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()


@dataclass
class Answer:
    """Answer to a request: ``body``, of which ``sent`` bytes come before the connection is cut."""

    status: int
    headers: dict[str, str]
    body: bytes
    sent: int | None = None


class Server:
    """Answers each path with its answers in order, and repeats the last; records the requests' ranges."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.requested: list[str] = []
        self.ranges: list[tuple[str | None, str | None]] = []
        self.url = ""

    def on(self, path: str, body: bytes = b"", status: int = 200, *, sent: int | None = None, **headers: str) -> None:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields = {"Content-Length": str(len(body)), **fields}
        self.answers.setdefault(path, []).append(Answer(status, fields, body, sent))

    def answer(self, path: str) -> Answer:
        self.requested.append(path)
        answers = self.answers[path]
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    found = Server()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = found.answer(self.path)
            found.ranges.append((self.headers.get("Range"), self.headers.get("If-Range")))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body[: answer.sent])

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
    assert download.fetch(f"{server.url}/x", tmp_path / "x", pin=SHA256).read_bytes() == BODY
    assert server.requested == ["/x", "/x"]


def test_third_interrupted_transfer_fails_with_the_reason(server: Server, tmp_path: Path) -> None:
    server.on("/x", BODY[:100], Content_Length=str(len(BODY)))
    assert "cannot be downloaded: IncompleteRead(100 bytes read, 8900 more expected)" in refusal(server, tmp_path)
    assert len(server.requested) == 3


CUT = 1 << 17
"""Bytes before a cut: two reads of the download."""
LARGE = bytes(range(256)) * 1024
LARGE_SHA256 = hashlib.sha256(LARGE).hexdigest()
VERSION = '"v1"'


def rest(server: Server, **headers: str) -> None:
    """Answer the next request with what is missing of LARGE after the cut."""
    fields = {"Content_Range": f"bytes {CUT}-{len(LARGE) - 1}/{len(LARGE)}", **headers}
    server.on("/x", LARGE[CUT:], 206, **fields)


def fetched(server: Server, tmp_path: Path) -> list[tuple[str | None, str | None]]:
    """Download LARGE and return Range and If-Range of each request."""
    assert download.fetch(f"{server.url}/x", tmp_path / "x", pin=LARGE_SHA256).read_bytes() == LARGE
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]
    return server.ranges


NEW, AGAIN = (None, None), (f"bytes={CUT}-", VERSION)


def test_cut_transfer_goes_on_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    server.on("/x", LARGE, sent=CUT, ETag=VERSION)
    rest(server)
    assert fetched(server, tmp_path) == [NEW, AGAIN]


def test_time_of_the_file_identifies_it_as_well(server: Server, tmp_path: Path) -> None:
    time = "Mon, 01 Jun 2026 00:00:00 GMT"
    server.on("/x", LARGE, sent=CUT, ETag='W/"weak"', Last_Modified=time)
    rest(server)
    assert fetched(server, tmp_path) == [NEW, (f"bytes={CUT}-", time)]


def test_file_that_changed_meanwhile_is_downloaded_from_the_start(server: Server, tmp_path: Path) -> None:
    server.on("/x", b"-" * len(LARGE), sent=CUT, ETag='"v0"')
    server.on("/x", LARGE, ETag=VERSION)
    assert fetched(server, tmp_path) == [NEW, (f"bytes={CUT}-", '"v0"')]


def test_file_that_nothing_identifies_is_downloaded_from_the_start(server: Server, tmp_path: Path) -> None:
    server.on("/x", LARGE, sent=CUT, ETag='W/"weak"')
    server.on("/x", LARGE)
    assert fetched(server, tmp_path) == [NEW, NEW]


@pytest.mark.parametrize(("status", "start"), [(416, ""), (206, "bytes 7-9/10"), (206, "")])
def test_answer_that_does_not_continue_the_file_starts_it_again(
    server: Server, tmp_path: Path, status: int, start: str
) -> None:
    server.on("/x", LARGE, sent=CUT, ETag=VERSION)
    server.on("/x", b"odd", status, Content_Range=start)
    server.on("/x", LARGE)
    assert fetched(server, tmp_path) == [NEW, AGAIN, NEW]


def test_range_that_nobody_asked_for_is_refused(server: Server, tmp_path: Path) -> None:
    server.on("/x", LARGE[:9], 206, Content_Range=f"bytes 0-8/{len(LARGE)}")
    assert "/x: the server answered 206 Partial Content" in refusal(server, tmp_path)


def test_range_is_asked_for_after_redirects_too(server: Server, tmp_path: Path) -> None:
    server.on("/x", status=302, Location="/y")
    server.on("/y", LARGE, sent=CUT, ETag=VERSION)
    server.on("/y", LARGE[CUT:], 206, Content_Range=f"bytes {CUT}-{len(LARGE) - 1}/{len(LARGE)}")
    assert fetched(server, tmp_path) == [NEW, NEW, AGAIN, AGAIN]


def test_progress_has_bytes_and_total_and_continues_after_a_cut(server: Server, tmp_path: Path) -> None:
    server.on("/x", LARGE, sent=CUT, ETag=VERSION)
    rest(server)
    seen: list[tuple[str, int | None, int | None]] = []
    download.fetch(f"{server.url}/x", tmp_path / "x", progress=lambda *report: seen.append(report))
    assert [done for _, done, _ in seen] == [1 << 16, CUT, CUT + (1 << 16), len(LARGE)]
    assert {total for _, _, total in seen} == {len(LARGE)}
    assert seen[-1][0] == "downloading x: 0.2 of 0.2 MiB"


def test_interrupt_ends_a_download(server: Server, tmp_path: Path) -> None:
    server.on("/x", LARGE)
    with pytest.raises(Interrupted, match=r"stopped while downloading .*/x"):
        download.fetch(f"{server.url}/x", tmp_path / "x", stopped=lambda: True)
    assert list(tmp_path.iterdir()) == []


def test_shorter_body_without_a_length_fails_by_its_checksum(server: Server, tmp_path: Path) -> None:
    server.on("/x", BODY[:500], Content_Length="")
    assert f"expected {SHA256}" in refusal(server, tmp_path, pin=SHA256)


def test_longer_body_than_announced_is_not_read(server: Server, tmp_path: Path) -> None:
    server.on("/x", BODY + b"more", Content_Length=str(len(BODY)))
    assert download.fetch(f"{server.url}/x", tmp_path / "x", pin=SHA256).read_bytes() == BODY


def test_page_instead_of_a_file_is_refused(server: Server, tmp_path: Path) -> None:
    server.on("/x", b"<html>Sign in</html>", Content_Type="text/html; charset=utf-8")
    assert "/x: the server sent an HTML page instead of the file" in refusal(server, tmp_path)
    assert server.requested == ["/x"]


def test_pin_decides_and_the_published_checksum_is_not_asked_for(server: Server, tmp_path: Path) -> None:
    server.on("/x", BODY)
    server.on("/x.sha256", SHA256.encode())
    checksum = f"{server.url}/x.sha256"
    assert f"expected {'0' * 64}" in refusal(server, tmp_path, checksum_url=checksum, pin="0" * 64)
    assert server.requested == ["/x"]


@pytest.mark.parametrize("status", [408, 429])
def test_server_that_asks_for_patience_is_asked_again(server: Server, tmp_path: Path, status: int) -> None:
    server.on("/x", status=status)
    server.on("/x", BODY)
    assert download.fetch(f"{server.url}/x", tmp_path / "x", pin=SHA256).read_bytes() == BODY


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
    assert f"has sha256 {SHA256}, expected {'0' * 64}" in refusal(server, tmp_path, pin="0" * 64)


@pytest.mark.parametrize("text", [b"", b"\n", b"<!DOCTYPE html>", b"abc  x\n"])
def test_checksum_file_without_checksum_is_refused(server: Server, tmp_path: Path, text: bytes) -> None:
    server.on("/x.sha256", text)
    checksum = f"{server.url}/x.sha256"
    assert "/x.sha256 has no sha256 checksum" in refusal(server, tmp_path, checksum_url=checksum)
    assert server.requested == ["/x.sha256"]


def test_redirects_are_followed_up_to_a_limit(server: Server, tmp_path: Path) -> None:
    server.on("/x", status=302, Location="/y")
    server.on("/y", BODY)
    assert download.fetch(f"{server.url}/x", tmp_path / "x", pin=SHA256).read_bytes() == BODY
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


WHOLE = archive(program=bytes(range(256)) * 64)


@pytest.mark.parametrize(
    "body",
    [archive(other=b""), b"no archive", WHOLE[:-20], WHOLE[:20] + b"\0" * 40 + WHOLE[60:], b""],
    ids=["another member", "no archive", "cut", "damaged", "empty"],
)
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
