"""The package sources that this machine is configured with, and whether they are reachable.

Registries are those in the names of the images; module proxy, package index and Debian archive come from the
machine's configuration alone. Addresses are shown without credentials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from lab.host.machine import Machine
from lab.tools import http
from lab.tools.background import within
from lab.tools.debian import Debian
from lab.tools.process import Runner, output_of

TIMEOUT = 2.0
"""Seconds that a source has to answer."""

REGISTRIES = {
    "docker.io": "https://registry-1.docker.io/v2/",
    "ghcr.io": "https://ghcr.io/v2/",
    "nvcr.io": "https://nvcr.io/v2/",
    "registry.k8s.io": "https://registry.k8s.io/v2/",
}
"""Registries with the address that clients request first (distribution spec, end-1)."""


@dataclass(frozen=True)
class PackageSource:
    """One source; ``kind`` is registry, go, pypi or debian, ``url`` is empty if this machine names no address."""

    kind: str
    name: str
    url: str

    @property
    def host(self) -> str:
        """Host name without credentials."""
        return urlsplit(self.url).hostname or self.url


Probe = Callable[[str, float], str]
"""Requests an address within a number of seconds; returns why it is not usable, or an empty text."""


def configured(run: Runner, machine: Machine) -> tuple[PackageSource, ...]:
    """All sources that this machine is configured to use."""
    with ThreadPoolExecutor(2, thread_name_prefix="sources") as pool:  # go and pip take some tenths of a second
        proxies, index = pool.submit(_go_proxies, run, machine), pool.submit(_pip_index, run, machine)
        mirror = Debian(run).mirror()
    sources = [PackageSource("registry", name, url) for name, url in REGISTRIES.items()]
    sources += [PackageSource("go", "Go module proxy", url) for url in proxies.result()]
    sources += [PackageSource("pypi", "Python package index", url) for url in index.result()]
    sources.append(PackageSource("debian", "Debian archive", mirror and f"{mirror}/dists/stable/InRelease"))
    return tuple(sources)


def reach(sources: Collection[PackageSource], probe: Probe, timeout: float = TIMEOUT) -> dict[PackageSource, str]:
    """Probe all sources in parallel; for each, return why it is not usable, or an empty text."""
    unset = {source: "not configured" for source in sources if not source.url}
    wanted = tuple(source for source in sources if source.url)
    found = within(timeout * 1.25, {one: partial(probe, one.url, timeout) for one in wanted}, at_once=len(wanted))
    return {source: unset.get(source) or found.get(source, f"no answer within {timeout:g} s") for source in sources}


def ask(url: str, timeout: float, env: Mapping[str, str] | None = None) -> str:
    """Request an address over HTTP(S), or check a ``file:`` directory; a request for credentials is an answer."""
    from urllib3.exceptions import HTTPError  # noqa: TID251 - the errors of lab.tools.http

    parts = urlsplit(url)
    if parts.scheme == "file":
        top = Path(parts.path.split("/golang.org/")[0])
        return "" if top.is_dir() else f"{top} does not exist"
    try:
        with http.get(url, timeout, env or {}) as response:
            status = response.status
    except (HTTPError, ValueError) as error:
        return http.reason(error)
    return "" if status < 400 or status == 401 else f"status {status}"


def _go_proxies(run: Runner, machine: Machine) -> list[str]:
    """Addresses of a module list in each proxy; an empty one if neither the environment nor go names any."""
    text = machine.env.get("GOPROXY", "")
    if not text and run.which("go") is not None:
        text = output_of(run, "go", "env", "GOPROXY").strip()
    addresses = [address.strip().rstrip("/") for address in text.replace("|", ",").split(",")]
    return [f"{address}/golang.org/x/mod/@v/list" for address in addresses if "://" in address] if text else [""]


def _pip_index(run: Runner, machine: Machine) -> list[str]:
    """pip's page in the package index; none if pip is configured to use no index, an empty one if none is named."""
    settings: dict[str, str] = {}
    if pip := next((name for name in ("pip", "pip3") if run.which(name)), None):
        listed = output_of(run, pip, "config", "list")
        for section in ("global", ":env:"):  # the environment overrides the files
            settings |= dict(re.findall(rf"^{section}\.([\w-]+)='(.*)'$", listed, re.M))
    if settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        return []
    index = settings.get("index-url") or machine.env.get("PIP_INDEX_URL")
    return [f"{index.rstrip('/')}/pip/" if index else ""]
