"""The one door for downloads: a file with its checksum, whole or not at all."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import urllib.error
import urllib.request  # noqa: TID251 - this is the door
from pathlib import Path

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from lab.errors import Unavailable
from lab.supply.cache import replacing

_SECONDS = 60


class _Hiccup(Exception):
    """A failure worth another try; a 4xx answer is not."""


def fetch(url: str, target: Path, *, checksum_url: str = "", sha256: str = "", member: str = "") -> Path:
    """Download the program ``url`` to ``target``, check it, and take ``member`` out of it when it is a tar archive.

    Raises:
        Unavailable: the server refused, the network failed three times, or the checksum differs.
    """
    try:
        if checksum_url:
            sha256 = _get(checksum_url).decode().split()[0]
        body = _get(url)
    except _Hiccup as error:
        raise Unavailable(f"{url} cannot be downloaded: {error}", fix="check the network and run again") from error
    found = hashlib.sha256(body).hexdigest()
    if sha256 and found != sha256:
        raise Unavailable(
            f"{url} has sha256 {found}, expected {sha256}", fix="run again; if it stays, the file was changed upstream"
        )
    with replacing(target) as temporary:
        temporary.write_bytes(body)
        if member:
            unpacked = temporary.with_name(temporary.name + ".member")
            with tarfile.open(temporary) as tar:
                source = tar.extractfile(member)
                if source is None:
                    raise Unavailable(f"{url} holds no file {member}")
                with unpacked.open("wb") as file:
                    shutil.copyfileobj(source, file)
            unpacked.replace(temporary)
        temporary.chmod(0o755)
    return target


@retry(retry=retry_if_exception_type(_Hiccup), stop=stop_after_attempt(3), reraise=True, wait=wait_exponential(max=10))
def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310, TID251 - the catalogue's addresses
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        if error.code < 500:
            raise Unavailable(f"{url}: the server answered {error.code} {error.reason}") from error
        raise _Hiccup(str(error)) from error
    except OSError as error:
        raise _Hiccup(str(error)) from error
