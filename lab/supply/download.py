"""Downloads files and verifies their checksums."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from lab.errors import Unavailable
from lab.supply.cache import replacing
from lab.tools import http

_SECONDS = 60
_CHUNK = 1 << 20
_REDIRECTS = 5


class _Transient(Exception):
    """A failure that may pass, unlike a 4xx answer."""


def fetch(url: str, target: Path, *, checksum_url: str = "", sha256: str = "", member: str = "") -> Path:
    """Download a program, verify it, and replace a tar archive by its ``member``.

    Raises Unavailable if the server refuses, the network fails three times, the checksum is missing or differs, or the
    archive has no such member, and LabError if the cache cannot be written.
    """
    with replacing(target) as temporary:
        if checksum_url:
            _download(checksum_url, temporary)
            listed = re.match(r"\s*([0-9a-fA-F]{64})\b", temporary.read_text(errors="replace"))
            if listed is None:
                raise Unavailable(
                    f"{checksum_url} has no sha256 checksum", fix="run the command again; if this persists, report it"
                )
            sha256 = listed[1].lower()
        found = _download(url, temporary)
        if sha256 and found != sha256:
            raise Unavailable(
                f"{url} has sha256 {found}, expected {sha256}",
                fix="run the command again; if this persists, the file was changed upstream",
            )
        if member:
            _unpack(temporary, member, url)
        temporary.chmod(0o755)
    return target


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
    except (KeyError, tarfile.TarError) as error:
        raise Unavailable(f"{url} has no file {member}") from error
    finally:
        unpacked.unlink(missing_ok=True)


def _download(url: str, file: Path) -> str:
    """Write the body to a file, and return its sha256."""
    try:
        return _attempt(url, file)
    except _Transient as error:
        raise Unavailable(
            f"{url} cannot be downloaded: {error}", fix="check the network, then run the command again"
        ) from error


@retry(
    retry=retry_if_exception_type(_Transient), stop=stop_after_attempt(3), reraise=True, wait=wait_exponential(max=10)
)
def _attempt(url: str, file: Path) -> str:
    from urllib3.exceptions import HTTPError  # noqa: TID251 - this is the door

    digest = hashlib.sha256()
    try:
        response = http.get(url, _SECONDS, os.environ)
        for _ in range(_REDIRECTS):
            if not (location := response.get_redirect_location()):
                break
            response.close()
            url = _redirected(url, location)
            response = http.get(url, _SECONDS, os.environ)
        with response, file.open("wb") as out:
            if response.status >= 500:
                raise _Transient(f"the server answered {response.status} {response.reason}")
            if response.status != 200:
                raise Unavailable(f"{url}: the server answered {response.status} {response.reason}")
            for chunk in response.stream(_CHUNK, decode_content=False):
                digest.update(chunk)
                out.write(chunk)
    except HTTPError as error:
        raise _Transient(http.reason(error)) from error
    return digest.hexdigest()


def _redirected(url: str, location: str) -> str:
    target = urljoin(url, location)
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
        raise Unavailable(f"{url} redirects to {target}, which is not https")
    return target
