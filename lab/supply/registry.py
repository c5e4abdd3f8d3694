"""Images and charts from container registries, pulled by the engine and by Helm."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlencode, urlsplit

from lab import sums
from lab.supply.cache import replacing, scratch
from lab.supply.download import verify
from lab.tools import http
from lab.tools.container import ContainerEngine
from lab.tools.process import Runner
from lab.tools.retry import retried

NO_LOGINS: Mapping[str, str] = MappingProxyType({})

_CONNECT_SECONDS = 2.0
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


def mirrored(reference: str, mirrors: Mapping[str, str]) -> str:
    """A reference with its registry replaced by the mirror that the lab file sets for it."""
    host, _, rest = reference.partition("/")
    return f"{without_scheme(mirrors[host])}/{rest}" if host in mirrors else reference


def mirrored_url(url: str, mirrors: Mapping[str, str]) -> str:
    """An address with its host replaced by the mirror that the lab file sets for it."""
    parts = urlsplit(url)
    if parts.netloc not in mirrors:
        return url
    host = without_scheme(mirrors[parts.netloc])
    scheme = "http" if parts.scheme == "https" and is_local(host) else parts.scheme
    return f"{scheme}://{host}{parts.path}"


def pinned(reference: str, digest: str) -> str:
    """A reference by digest in place of its tag, if there is one."""
    head, colon, tag = reference.rpartition(":")
    name = head if colon and "/" not in tag else reference
    return f"{name}@{digest}" if digest else reference


def without_scheme(address: str) -> str:
    """A mirror's address as engines and Helm need it: without http:// or https:// and trailing slash."""
    return address.rpartition("://")[2].rstrip("/")


@functools.cache
def reachable(host: str) -> bool:
    """Whether a TCP connection to ``host`` (``name`` or ``name:port``) opens within two seconds."""
    name, _, port = host.partition(":")
    if name == "docker.io":
        name = "registry-1.docker.io"
    try:
        with socket.create_connection((name, int(port or 443)), _CONNECT_SECONDS):
            return True
    except OSError:
        return False


def size(reference: str, engine: ContainerEngine, architecture: str) -> int | None:
    """Bytes to pull of an image that the registry has, 0 if it does not say; None without the image for this
    architecture."""
    insecure = ["--insecure"] if is_local(reference) and engine.name == "docker" else []
    answer = engine.call("manifest", "inspect", *insecure, reference, check=False, timeout=30)
    if answer.code != 0:
        return None
    try:
        data = json.loads(answer.out)
        for one in data.get("manifests", ()):
            if one.get("platform", {}).get("architecture") == architecture:
                return size(pinned(reference.partition("@")[0], one["digest"]), engine, architecture)
        if data.get("manifests"):
            return None  # for other architectures only
        return sum(int(layer["size"]) for layer in data.get("layers", ()))
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0


@retried()
def fetch(reference: str, mirrors: Mapping[str, str], engine: ContainerEngine, target: Path, digest: str = "") -> Path:
    """Pull an image into an archive, and leave the engine's images as they were.

    With a ``digest`` the engine refuses other content. All of it is retried: another program may remove the image from
    the engine meanwhile. Raises CommandFailed.
    """
    source = pinned(mirrored(reference, mirrors), digest)
    before = {name: engine.image_id(name) for name in dict.fromkeys([reference, source])}
    try:
        engine.call("pull", "-q", source)
        if source != reference:
            engine.call("tag", source, reference)
        return save(reference, engine, target)
    finally:
        for name, known in before.items():
            if known is None:
                engine.call("rmi", name, check=False)
            elif name == reference and engine.image_id(name) != known:
                engine.call("tag", known, name, check=False)


def save(reference: str, engine: ContainerEngine, target: Path) -> Path:
    """Write an image of the engine to an archive. Raises CommandFailed."""
    with replacing(target) as temporary:
        engine.call("save", "-o", str(temporary), reference)
    return target


@retried()
def pull_chart(helm: Path, reference: str, version: str, run: Runner, target: Path, pin: str = "") -> Path:
    """Pull a chart (``oci://…``) into ``target``. Raises CommandFailed, or Unavailable if ``pin`` is not its sha256."""
    plain = ["--plain-http"] if is_local(reference.removeprefix("oci://")) else []
    # in the cache: /tmp may be another file system, from which nothing can be renamed into the cache
    with scratch(target) as folder:
        env = dict.fromkeys(("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"), str(folder))
        run.run([helm, "pull", reference, "--version", version, *plain, "--destination", folder], env=env)
        chart = next(folder.glob("*.tgz"))
        verify(f"{reference}:{version}", sums.digest(chart), pin)
        with replacing(target) as temporary:
            chart.rename(temporary)
    return target


def is_local(reference: str) -> bool:
    """Whether a reference or host is on this machine, for which engines use plain HTTP."""
    return reference.split("/")[0].split(":")[0] in ("localhost", "127.0.0.1")


def has_manifest(reference: str, logins: Mapping[str, str] = NO_LOGINS, timeout: float = 5.0) -> bool | None:
    """Whether a registry has an image, asked without a container engine; None where it does not say.

    ``logins`` are user and password by host (``user:password``). Without one, uses the anonymous token that the
    registry offers (distribution spec, token authentication): what needs other credentials, as nodes may have them, is
    unknown.
    """
    from urllib3.exceptions import HTTPError  # noqa: TID251 - the errors of lab.tools.http

    host, _, rest = reference.partition("/")
    name, _, tag = rest.partition("@") if "@" in rest else rest.rpartition(":")
    if not name:
        return None
    login = _basic(logins.get(host, ""))
    scheme, host = "http" if is_local(reference) else "https", "registry-1.docker.io" if host == "docker.io" else host
    url, accept = f"{scheme}://{host}/v2/{name}/manifests/{tag}", {"Accept": ", ".join(_MANIFESTS)}
    try:
        answer = http.get(url, timeout, os.environ, accept)
        if answer.status == 401 and (ask := _token_address(answer.headers.get("WWW-Authenticate", ""))):
            token = json.loads(http.get(ask, timeout, os.environ, login).read())
            bearer = {"Authorization": f"Bearer {token.get('token') or token.get('access_token')}"}
            answer = http.get(url, timeout, os.environ, {**accept, **bearer})
        elif answer.status == 401 and login:
            answer = http.get(url, timeout, os.environ, {**accept, **login})
    except (HTTPError, OSError, ValueError):
        return None
    return {200: True, 404: False}.get(answer.status)


def _basic(login: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}


def _token_address(challenge: str) -> str:
    """Where a registry's Bearer challenge sends its client; empty for another one."""
    if not challenge.startswith("Bearer "):
        return ""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = fields.pop("realm", "")
    return f"{realm}?{urlencode(fields)}" if realm else ""
