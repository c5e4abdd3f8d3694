"""Where this machine is set up to get things from, and whether those places answer.

Registries are the ones that the images' own names point to; module proxy, package index and Debian archive
are read from the machine's configuration. Addresses are shown without user and password.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lab.errors import CommandFailed
from lab.host.machine import Machine
from lab.tools import http
from lab.tools.debian import Debian
from lab.tools.process import Runner

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
    with ThreadPoolExecutor(2, thread_name_prefix="sources") as pool:  # go and pip take some tenths of a second
        asked = pool.submit(_go_proxies, run, machine), pool.submit(_index, run, machine)
        mirror = Debian(run, machine.path("/etc")).mirror().rstrip("/")
        proxies, index = asked[0].result(), asked[1].result().rstrip("/")
    sources = [PackageSource("registry", name, url) for name, url in REGISTRIES.items()]
    sources += [PackageSource("go", "Go module proxy", f"{proxy}/golang.org/x/mod/@v/list") for proxy in proxies]
    sources += [PackageSource("pypi", "Python package index", f"{index}/pip/")] if index else []
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
    return "" if status < 400 or status == 401 else f"it answers {status}"


def _go_proxies(run: Runner, machine: Machine) -> list[str]:
    text = machine.env.get("GOPROXY", "")
    if not text and run.which("go") is not None:
        try:
            text = run.run(["go", "env", "GOPROXY"], check=False, timeout=10).out.strip()
        except CommandFailed:
            text = ""
    places = (text or "https://proxy.golang.org").replace("|", ",").split(",")
    return [place.strip().rstrip("/") for place in places if "://" in place]


def _index(run: Runner, machine: Machine) -> str:
    """The package index that pip uses here; empty when it is configured to use none."""
    settings: dict[str, str] = {}
    if pip := next((name for name in ("pip", "pip3") if run.which(name)), None):
        try:
            listed = run.run([pip, "config", "list"], check=False, timeout=10).out
        except CommandFailed:
            listed = ""
        for section in ("global", ":env:"):  # the environment wins over the files
            settings |= dict(re.findall(rf"^{section}\.([\w-]+)='(.*)'$", listed, re.M))
    if settings.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        return ""
    return settings.get("index-url") or machine.env.get("PIP_INDEX_URL") or "https://pypi.org/simple"
