"""Downloads files, goes on where a transfer was cut, and verifies checksums."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from lab.errors import Interrupted, Unavailable
from lab.supply.cache import Progress, replacing, silent
from lab.tools import http

_SECONDS = 60
_CHUNK = 1 << 16
_MIB = 1 << 20
_REDIRECTS = 5
_LATER = (408, 429)
"""Client errors that ask for another attempt."""


class _Transient(Exception):
    """A failure that may pass, unlike most 4xx answers."""


def fetch(
    url: str,
    target: Path,
    *,
    pin: str = "",
    checksum_url: str = "",
    member: str = "",
    mode: int = 0o755,
    progress: Progress = silent,
    stopped: Callable[[], bool] = lambda: False,
) -> Path:
    """Download a file, verify it, and replace a tar archive by its ``member``.

    ``pin`` is its sha256; without one, ``checksum_url`` is asked for it. Raises Unavailable if the server refuses, the
    network fails three times, the checksum is missing or differs, or the archive has no such member, Interrupted when
    ``stopped``, and LabError if the cache cannot be written.
    """
    with replacing(target) as temporary:
        expected = pin
        if checksum_url and not pin:
            _Transfer(checksum_url, temporary, silent, stopped).run()
            listed = re.match(r"\s*([0-9a-fA-F]{64})\b", temporary.read_text(errors="replace"))
            if listed is None:
                raise Unavailable(
                    f"{checksum_url} has no sha256 checksum", fix="run the command again; if this persists, report it"
                )
            expected = listed[1].lower()
        verify(url, _Transfer(url, temporary, progress, stopped).run(), expected)
        if member:
            _unpack(temporary, member, url)
        temporary.chmod(mode)
    return target


def size(url: str, timeout: float = 5.0) -> int:
    """Bytes of a file that a server has, 0 if it does not say."""
    from urllib3.exceptions import HTTPError  # noqa: TID251 - the errors of lab.tools.http

    try:
        with _Transfer(url, Path(), silent, lambda: False).answer(timeout) as response:
            length = response.headers.get("Content-Length", "")
            return int(length) if response.status == 200 and length.isdigit() else 0
    except (HTTPError, ValueError, Unavailable):
        return 0


def verify(url: str, found: str, expected: str) -> None:
    """Raise Unavailable if the sha256 differs from an expected one."""
    if expected and found != expected:
        raise Unavailable(
            f"{url} has sha256 {found}, expected {expected}",
            fix="run the command again; if this persists, the file was changed upstream: do not use it, and report it",
        )


def _unpack(archive: Path, member: str, url: str) -> None:
    """Replace a tar archive by one of its members."""
    unpacked = archive.with_name(f"{archive.name}.member")
    try:
        with tarfile.open(archive) as tar:
            source = tar.extractfile(member)
            if source is None:
                raise KeyError(member)
            with unpacked.open("wb") as file:
                shutil.copyfileobj(source, file)
        unpacked.replace(archive)
    except (KeyError, tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Unavailable(
            f"{url} has no file {member}: {error}", fix="run the command again; if this persists, report it"
        ) from error
    finally:
        unpacked.unlink(missing_ok=True)


@dataclass
class _Transfer:
    """One download; ``done`` bytes are in the file, and ``validator`` identifies what the server has there."""

    url: str
    file: Path
    progress: Progress
    stopped: Callable[[], bool]
    done: int = 0
    validator: str = ""
    digest: Any = field(default_factory=hashlib.sha256)

    def run(self) -> str:
        """Write the body to the file, and return its sha256."""
        try:
            self._attempt()
        except _Transient as error:
            raise Unavailable(
                f"{self.url} cannot be downloaded: {error}", fix="check the network, then run the command again"
            ) from error
        return str(self.digest.hexdigest())

    @retry(
        retry=retry_if_exception_type(_Transient),
        stop=stop_after_attempt(3),
        reraise=True,
        wait=wait_exponential(max=10),
    )
    def _attempt(self) -> None:
        from urllib3.exceptions import HTTPError  # noqa: TID251 - this is the door

        try:
            with self.answer() as response:
                self._begin(response)
                # without a length, only the checksum distinguishes the end of the transfer from a cut
                length = response.headers.get("Content-Length", "")
                total = self.done + int(length) if length.isdigit() else None
                with self.file.open("ab" if self.done else "wb") as out:
                    for chunk in response.stream(_CHUNK, decode_content=False):
                        if self.stopped():
                            raise Interrupted(f"stopped while downloading {self.url}")
                        out.write(chunk)
                        self.digest.update(chunk)
                        self.done += len(chunk)
                        self._report(total)
        except HTTPError as error:
            raise _Transient(http.reason(error)) from error

    def answer(self, timeout: float = _SECONDS) -> http.Response:
        """The answer after redirects, to a request for what is missing of the file."""
        url, wanted = self.url, {"Range": f"bytes={self.done}-", "If-Range": self.validator}
        headers = wanted if self.done and self.validator else {}
        response = http.get(url, timeout, os.environ, headers)
        for _ in range(_REDIRECTS):
            if not (location := response.get_redirect_location()):
                break
            response.close()
            url = redirected(url, location)
            response = http.get(url, timeout, os.environ, headers)
        return response

    def _begin(self, response: http.Response) -> None:
        """Check the answer's head; forget what is in the file unless the answer continues it."""
        status = f"the server answered {response.status} {response.reason}"
        continues = response.headers.get("Content-Range", "").startswith(f"bytes {self.done}-")
        if self.done and response.status == 206 and continues:
            return
        again = self.done > 0 and response.status in (206, 416)
        self.done, self.digest, self.validator = 0, hashlib.sha256(), ""
        if again or response.status >= 500 or response.status in _LATER:
            raise _Transient(status)
        if response.status != 200:
            raise Unavailable(f"{self.url}: {status}", fix="check the version in the lab file, or use a mirror")
        if "text/html" in response.headers.get("Content-Type", ""):
            raise Unavailable(
                f"{self.url}: the server sent an HTML page instead of the file",
                fix="check whether a proxy or a login page answers for that address",
            )
        etag = response.headers.get("ETag", "")
        self.validator = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")

    def _report(self, total: int | None) -> None:
        name = urlsplit(self.url).path.rpartition("/")[2]
        of = f" of {total / _MIB:.1f}" if total else ""
        self.progress(f"downloading {name}: {self.done / _MIB:.1f}{of} MiB", self.done, total)


def redirected(url: str, location: str) -> str:
    """The address that a redirect leads to. Raises Unavailable if it leaves https."""
    target = urljoin(url, location)
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        raise Unavailable(f"{url} redirects to {target}, which is not https")
    return target
