"""Package sources: their configuration on the machine, and whether they answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lab.host import sources
from lab.host.sources import PackageSource
from tests.support.host_world import HostWorld


def configured_urls(world: HostWorld, **env: str) -> dict[str, list[str]]:
    machine = replace(world.machine, env={**world.machine.env, **env})
    found: dict[str, list[str]] = {}
    for source in sources.configured(world.runner, machine):
        found.setdefault(source.kind, []).append(source.url)
    return found


def test_machine_without_configuration_has_registries_only(world: HostWorld) -> None:
    found = configured_urls(world)
    assert found == {"registry": list(sources.REGISTRIES.values()), "go": [""], "pypi": [""], "debian": [""]}


def test_source_without_configuration_is_not_probed() -> None:
    unset = PackageSource("go", "Go module proxy", "")
    assert sources.reach([unset], lambda url, timeout: pytest.fail(f"probed {url!r}")) == {unset: "not configured"}


def test_go_proxies_come_from_go_env(world: HostWorld) -> None:
    world.runner.has("go")
    world.runner.handle("go env GOPROXY", out="https://a.example/go/,http://b.example|direct\n")
    found = configured_urls(world)["go"]
    assert found == ["https://a.example/go/golang.org/x/mod/@v/list", "http://b.example/golang.org/x/mod/@v/list"]
    assert "go" not in configured_urls(world, GOPROXY="off")


@pytest.mark.parametrize(
    ("listed", "urls"),
    [
        ("global.index-url='https://file.example/simple'", ["https://file.example/simple/pip/"]),
        ("global.index-url='https://file.example/%(x)s/'", ["https://file.example/%(x)s/pip/"]),
        (":env:.index-url='https://env.example'\nglobal.index-url='https://f.example'", ["https://env.example/pip/"]),
        (":env:.no-index='1'\nglobal.index-url='https://file.example'", []),
        ("global.no-index='true'", []),
        ("install.index-url='https://other.example'", [""]),
        ("", [""]),
    ],
)
def test_pip_index_comes_from_pip_config_and_the_environment_wins(
    world: HostWorld, listed: str, urls: list[str]
) -> None:
    world.runner.has("pip")
    world.runner.handle("pip config list", out=f"{listed}\n")
    assert configured_urls(world).get("pypi", []) == urls


def test_failing_pip_is_ignored(world: HostWorld) -> None:
    world.runner.has("pip3")
    world.runner.handle("pip3 config list", code=1, err="ERROR: Configuration file could not be loaded.")
    assert configured_urls(world)["pypi"] == [""]


def test_environment_names_the_index_without_pip(world: HostWorld) -> None:
    assert configured_urls(world, PIP_INDEX_URL="https://env.example")["pypi"] == ["https://env.example/pip/"]


def test_debian_archive_comes_from_apt(world: HostWorld) -> None:
    world.runner.has("apt-get")
    world.runner.handle("apt-get indextargets", out="Debian Debian http://apt.example/debian/\n")
    assert configured_urls(world)["debian"] == ["http://apt.example/debian/dists/stable/InRelease"]


def test_credentials_are_never_shown() -> None:
    assert PackageSource("go", "x", "https://user:secret@a.example:8443/go").host == "a.example"


def test_reach_does_not_wait_for_a_silent_source() -> None:
    release = threading.Event()

    def probe(url: str, timeout: float) -> str:
        if "slow" in url:
            release.wait(10)
        return "" if "good" in url else "refused"

    package_sources = [PackageSource("go", name, f"https://{name}/") for name in ("good", "slow", "bad")]
    found = sources.reach(package_sources, probe, timeout=0.04)
    release.set()
    assert {source.name: why for source, why in found.items()} == {
        "good": "",
        "slow": "no answer within 0.04 s",
        "bad": "refused",
    }


class _Answers(BaseHTTPRequestHandler):
    seen: list[tuple[str, str]]
    proxy: str

    def do_GET(self) -> None:
        type(self).proxy = self.headers.get("Proxy-Authorization", "")
        self.seen.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(int(self.path.rsplit("/", 1)[-1]))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Stay silent."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    _Answers.seen = []
    with HTTPServer(("127.0.0.1", 0), _Answers) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("status", "why"), [(200, ""), (307, ""), (401, ""), (403, "status 403"), (404, "status 404"), (502, "status 502")]
)
def test_request_for_credentials_counts_as_reachable(server: HTTPServer, status: int, why: str) -> None:
    assert sources.ask(f"http://127.0.0.1:{server.server_port}/v2/{status}", 2) == why


@pytest.mark.loopback
def test_credentials_in_the_url_are_used(server: HTTPServer) -> None:
    assert sources.ask(f"http://user:secret@127.0.0.1:{server.server_port}/200", 2) == ""
    assert _Answers.seen == [("/200", "Basic dXNlcjpzZWNyZXQ=")]


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("no_proxy", "path"), [({}, "http://a.example/x/200"), ({"no_proxy": "b.example"}, "http://a.example/x/200")]
)
def test_proxy_gets_the_full_url(server: HTTPServer, no_proxy: Mapping[str, str], path: str) -> None:
    env = {"http_proxy": f"http://127.0.0.1:{server.server_port}", **no_proxy}
    assert sources.ask("http://a.example/x/200", 2, env) == ""
    assert _Answers.seen[0][0] == path


@pytest.mark.loopback
def test_credentials_in_the_proxy_url_are_used(server: HTTPServer) -> None:
    env = {"HTTP_PROXY": f"http://user:se%40cret@127.0.0.1:{server.server_port}"}
    assert sources.ask("http://own:pw@a.example/200", 2, env) == ""
    assert _Answers.seen == [("http://a.example/200", "Basic b3duOnB3")]
    assert _Answers.proxy == "Basic dXNlcjpzZUBjcmV0"


@pytest.mark.loopback
def test_no_proxy_host_is_contacted_directly(server: HTTPServer) -> None:
    env = {"http_proxy": "http://127.0.0.1:9", "NO_PROXY": "x.example, 127.0.0.1"}
    assert sources.ask(f"http://127.0.0.1:{server.server_port}/200", 2, env) == ""


@pytest.mark.loopback
def test_https_uses_tls_and_a_proxy_tunnel(server: HTTPServer) -> None:
    here = f"127.0.0.1:{server.server_port}"
    assert "SSL" in sources.ask(f"https://{here}/200", 2)
    refused = sources.ask("https://a.example/200", 2, {"HTTPS_PROXY": f"http://{here}"})
    assert "Tunnel connection failed: 501" in refused


@pytest.mark.loopback
def test_closed_port_gives_the_reason() -> None:
    assert "refused" in sources.ask("http://127.0.0.1:9/", 2).lower()


def test_directory_proxy_is_checked_for_files(tmp_path: Path) -> None:
    assert sources.ask(f"file://{tmp_path}/golang.org/x/mod/@v/list", 1) == ""
    assert "does not exist" in sources.ask("file:///nowhere/golang.org/x/mod/@v/list", 1)
