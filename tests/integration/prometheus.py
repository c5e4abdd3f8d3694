"""A real Prometheus in a folder: it scrapes the watch of a cluster and evaluates its alert rules."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess  # noqa: TID251 - a server that runs beside the test
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml
from urllib3.exceptions import HTTPError  # noqa: TID251 - what lab.tools.http raises

from lab.kube import Cluster
from lab.tools.http import get
from lab.tools.process import HostRunner
from lab.watch.names import NAME, PORT
from tests.integration.conftest import lacking

_SECOND = "1s"

Json = dict[str, Any]


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str
    cluster: Cluster

    def api(self, path: str) -> Json:
        """The field ``data`` of an answer; empty while the server does not answer."""
        try:
            answer = get(f"{self.url}/api/v1/{path}", 10, {})
        except HTTPError:
            return {}
        return dict(json.loads(answer.read()).get("data", {}))

    def query(self, expression: str) -> list[Json]:
        """The series of an instant query."""
        return list(self.api(f"query?query={quote(expression)}").get("result", []))

    def firing(self) -> dict[str, Json]:
        """Alerts that fire, by name."""
        alerts = self.api("alerts").get("alerts", [])
        return {one["labels"]["alertname"]: one for one in alerts if one["state"] == "firing"}

    def until(self, holds: Callable[[Prometheus], bool], seconds: float = 90) -> bool:
        """Whether a condition holds within ``seconds``."""
        return bool(self.cluster.poll(lambda: holds(self), timeout=seconds, interval=1.0))


@contextmanager
def prometheus(folder: Path, cluster: Cluster, groups: list[Json]) -> Iterator[Prometheus]:
    """Prometheus on a free port, with alert ``groups``, which promtool must accept; skips where it is not installed.

    It scrapes the watch's Service through the API server, with the credentials of the kubeconfig.
    """
    programs = {name: shutil.which(name) for name in ("prometheus", "promtool")}
    if missing := [name for name, path in programs.items() if path is None]:
        lacking("prometheus", f"{' and '.join(missing)} not installed (Debian: apt-get install prometheus)")
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    config = folder / "prometheus.yaml"
    config.write_text(yaml.safe_dump(_config(folder, cluster)))
    HostRunner().run([str(programs["promtool"]), "check", "config", config])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [programs["prometheus"], f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "prometheus.log").open("wb") as log:
        server = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
        try:
            yield Prometheus(f"http://{address}", cluster)
        finally:
            server.terminate()
            server.wait(timeout=20)


def _config(folder: Path, cluster: Cluster) -> Json:
    file = yaml.safe_load(cluster.kubeconfig.read_text())
    server, user = file["clusters"][0]["cluster"], file["users"][0]["user"]
    target = urlsplit(server["server"])
    return {
        "global": {"scrape_interval": _SECOND, "evaluation_interval": _SECOND},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [
            {
                "job_name": NAME,
                "scheme": target.scheme,
                "metrics_path": f"/api/v1/namespaces/{NAME}/services/{NAME}:{PORT}/proxy/metrics",
                "static_configs": [{"targets": [target.netloc]}],
                "tls_config": {
                    "ca_file": _file(folder, "ca.crt", server, "certificate-authority-data"),
                    "cert_file": _file(folder, "client.crt", user, "client-certificate-data"),
                    "key_file": _file(folder, "client.key", user, "client-key-data"),
                },
            }
        ],
    }


def _file(folder: Path, name: str, of: Mapping[str, str], key: str) -> str:
    path = folder / name
    path.touch(mode=0o600)
    path.write_bytes(base64.b64decode(of[key]))
    return str(path)
