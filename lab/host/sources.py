"""Where this machine is set up to get things from, and whether those places answer.

Registries are the ones that the images' own names point to; module proxy, package index and Debian archive
are read from the machine's configuration. Addresses are shown without user and password.
"""

from __future__ import annotations

import configparser
import queue
import threading
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lab.errors import CommandFailed
from lab.host.machine import Machine
from lab.tools.debian import Debian
from lab.tools.process import Runner

if TYPE_CHECKING:
    import http.client

TIMEOUT = 2.0
"""Seconds that a place has for its answer."""

REGISTRIES = {
    "docker.io": "https://registry-1.docker.io/v2/",
    "ghcr.io": "https://ghcr.io/v2/",
    "nvcr.io": "https://nvcr.io/v2/",
    "registry.k8s.io": "https://registry.k8s.io/v2/",
}
"""Registry and what a client asks it first (distribution spec, end-1)."""


@dataclass(frozen=True)
class PackageSource:
    """A place to get things from; ``kind`` is registry, go, pypi or debian."""

    kind: str
    name: str
    url: str

    @property
    def host(self) -> str:
        """Host name, without user and password."""
        return urlsplit(self.url).hostname or self.url


Probe = Callable[[str, float], str]
"""Asks an address and returns an empty text, or why it is of no use."""


def configured(run: Runner, machine: Machine) -> tuple[PackageSource, ...]:
    """All places this machine is set up to use."""
    sources = [PackageSource("registry", name, url) for name, url in REGISTRIES.items()]
    proxies = _go_proxies(run, machine)
    sources += [PackageSource("go", "Go module proxy", f"{proxy}/golang.org/x/mod/@v/list") for proxy in proxies]
    if index := _index(machine):
        sources.append(PackageSource("pypi", "Python package index", f"{index.rstrip('/')}/pip/"))
    mirror = Debian(run, machine.path("/etc")).mirror().rstrip("/")
    sources.append(PackageSource("debian", "Debian archive", f"{mirror}/dists/stable/InRelease"))
    return tuple(sources)


def reach(sources: Iterable[PackageSource], probe: Probe, timeout: float = TIMEOUT) -> dict[PackageSource, str]:
    """Ask all places at the same time.

    Args:
        sources: the places.
        probe: how one is asked.
        timeout: seconds until a place that has said nothing counts as unreachable.

    Returns:
        For each place an empty text, or why it is of no use.
    """
    wanted = tuple(sources)
    answers: queue.SimpleQueue[tuple[PackageSource, str]] = queue.SimpleQueue()
    for source in wanted:
        # daemon threads: a resolver that hangs must not keep the program from ending
        ask = threading.Thread(target=lambda s=source: answers.put((s, probe(s.url, timeout))), daemon=True)
        ask.start()
    found: dict[PackageSource, str] = {}
    try:
        while len(found) < len(wanted):
            source, why = answers.get(timeout=timeout * 1.25)
            found[source] = why
    except queue.Empty:
        pass
    return {source: found.get(source, f"no answer within {timeout:g} s") for source in wanted}


def ask(url: str, timeout: float, env: Mapping[str, str] | None = None) -> str:
    """Ask an address over HTTP(S), or look for its directory; being asked for credentials is an answer."""
    import http.client

    parts = urlsplit(url)
    if parts.scheme == "file":
        top = Path(parts.path.split("/golang.org/")[0])
        return "" if top.is_dir() else f"{top} does not exist"
    headers = {"User-Agent": "kailab"}
    if parts.username:
        token = b64encode(f"{parts.username}:{parts.password or ''}".encode()).decode()
        headers["Authorization"] = f"Basic {token}"
    target = parts.path or "/"
    try:
        connection: http.client.HTTPConnection
        proxy = _proxy(parts.scheme, parts.hostname or "", env or {})
        if parts.scheme == "https":
            connection = _secure(parts.hostname or "", parts.port, proxy, timeout)
        elif proxy is not None:
            connection = http.client.HTTPConnection(*proxy, timeout=timeout)
            target = f"http://{parts.netloc.rpartition('@')[2]}{target}"
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        try:
            connection.request("GET", target, headers=headers)
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return "" if status < 400 or status == 401 else f"it answers {status}"


def _proxy(scheme: str, host: str, env: Mapping[str, str]) -> tuple[str, int | None] | None:
    address = env.get(f"{scheme}_proxy") or env.get(f"{scheme.upper()}_PROXY") or ""
    spared = (env.get("no_proxy") or env.get("NO_PROXY") or "").replace(" ", "").split(",")
    parts = urlsplit(address)
    if not parts.hostname or any(host == name.lstrip(".") or host.endswith(name) for name in spared if name):
        return None
    return parts.hostname, parts.port


def _secure(
    host: str, port: int | None, proxy: tuple[str, int | None] | None, timeout: float
) -> http.client.HTTPSConnection:
    import http.client
    import ssl

    context = ssl.create_default_context()
    if proxy is None:
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    connection = http.client.HTTPSConnection(*proxy, timeout=timeout, context=context)
    connection.set_tunnel(host, port or 443)
    return connection


def _go_proxies(run: Runner, machine: Machine) -> list[str]:
    text = machine.env.get("GOPROXY", "")
    if not text and run.which("go") is not None:
        try:
            text = run.run(["go", "env", "GOPROXY"], check=False, timeout=10).out.strip()
        except CommandFailed:
            text = ""
    places = (text or "https://proxy.golang.org").replace("|", ",").split(",")
    return [place.strip().rstrip("/") for place in places if "://" in place]


def _index(machine: Machine) -> str:
    """The package index that pip would use here; empty when pip is told to use none."""
    env = machine.env
    if env.get("PIP_NO_INDEX", "").lower() in {"1", "true", "yes", "on"}:
        return ""
    home = env.get("HOME", "/root")
    files = ["/etc/pip.conf", f"{home}/.pip/pip.conf", f"{env.get('XDG_CONFIG_HOME', f'{home}/.config')}/pip/pip.conf"]
    files += [f"{env['VIRTUAL_ENV']}/pip.conf"] if "VIRTUAL_ENV" in env else []
    files += [env["PIP_CONFIG_FILE"]] if "PIP_CONFIG_FILE" in env else []
    config = configparser.ConfigParser(interpolation=None, strict=False)
    for file in files:
        try:
            config.read_string(machine.text(file))
        except configparser.Error:
            continue
    if config.getboolean("global", "no-index", fallback=False):
        return ""
    return env.get("PIP_INDEX_URL", "") or str(config.get("global", "index-url", fallback="https://pypi.org/simple"))
