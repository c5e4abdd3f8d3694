"""The catalogue's pins, and the script that refreshes them, against a server on this machine."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lab.config import LabSpec
from lab.errors import Unavailable
from lab.supply.catalogue import load
from scripts import pins

VERSION = LabSpec().cluster.kubernetes
ANY_VERSION = re.compile(r"v\d+\.\d+\.\d+(?=/bin|$)")
LAYER = {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": f"sha256:{'a' * 64}"}
MANIFEST = json.dumps({"layers": [LAYER]}).encode()
TOKEN = "letters"


@pytest.fixture
def host() -> Iterator[str]:
    """A registry that wants a token, and publishes checksums."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            status, body = 200, b"the file"
            if path == "/token":
                status = 200 if query == "service=it&scope=repository:x/y:pull" else 403
                body = json.dumps({"token": TOKEN}).encode()
            elif path == "/v2/moved/manifests/1":
                status = 307
            elif path == "/elsewhere":
                status, body = (400, b"") if allowed else (200, MANIFEST)
            elif path.startswith("/v2/"):
                status = 401 if not allowed else 200 if path == "/v2/x/y/manifests/1" else 404
                body = MANIFEST
            elif path == "/file.sha256":
                body = f"{'b' * 64}  file\n".encode()
            self.send_response(status)
            if status == 401:
                realm = f"http://{self.headers['Host']}/token"
                challenge = f'Bearer realm="{realm}",service="it",scope="repository:x/y:pull"'
                self.send_header("WWW-Authenticate", challenge)
            if status == 307:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


def test_pins_are_sums_of_addresses_that_the_catalogue_has() -> None:
    keys = {ANY_VERSION.sub("", row.key) for row in pins.rows(VERSION)}
    for key, value in load(VERSION).pins.items():
        image = not key.startswith(("https:", "oci:"))
        assert re.fullmatch(rf"{'sha256:' if image else ''}[0-9a-f]{{64}}", value), key
        assert ANY_VERSION.sub("", key) in keys, key


def test_programs_of_a_lab_are_pinned_for_both_architectures() -> None:
    programs = [row for row in pins.rows(VERSION) if "amd64" in row.key or "arm64" in row.key]
    assert len(programs) == 10
    assert [row.key for row in programs if not row.pin] == []


@pytest.mark.loopback
def test_digests_and_checksums_come_from_servers(host: str) -> None:
    assert pins.image_digest(f"{host}/x/y:1") == pins.digest_of(MANIFEST)
    assert pins.image_digest(f"{host}/moved:1") == pins.digest_of(MANIFEST)
    assert pins.chart_digest(f"{host}/x/y:1") == "a" * 64
    assert pins.checksum(f"http://{host}/file", f"http://{host}/file.sha256") == "b" * 64
    assert pins.checksum(f"http://{host}/file", "") == pins.digest_of(b"the file").removeprefix("sha256:")
    with pytest.raises(Unavailable, match="x/z/manifests/1: the server answered 404"):
        pins.manifest(f"{host}/x/z:1")


def refuse() -> str:
    raise Unavailable("no network")


def test_pin_never_changes_and_new_ones_are_written() -> None:
    one, two = "1" * 64, "2" * 64
    rows = [
        pins.Row("same", one, lambda: one),
        pins.Row("changed", one, lambda: two),
        pins.Row("unseen", one, refuse),
        pins.Row("new", "", lambda: two),
        pins.Row("gone", "", refuse),
    ]
    new, lines = pins.compare(rows, offline=False)
    assert new == {"new": two}
    assert [line.split()[:2] for line in lines] == [
        ["ok", "same"],
        ["DIFFERS", "changed:"],
        ["pinned", "unseen:"],
        ["new", "new:"],
        ["missing", "gone:"],
    ]
    assert lines[1].endswith(f"its server has {two}, the pin is {one}")
    assert lines[-1].endswith("no network")
    assert pins.compare(rows, offline=True)[0] == {}
    assert pins.added('[pins]\n"a" = "b"\n', new) == f'[pins]\n"a" = "b"\n"new" = "{two}"\n'
