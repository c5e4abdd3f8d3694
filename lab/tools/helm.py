"""Facade over Helm 3 that leaves the user's Helm settings and clusters alone."""

from __future__ import annotations

import base64
import gzip
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.paths import cache_root
from lab.serialization import yaml_documents
from lab.tools.process import Result, Runner

_HISTORY = 3
_GRACE = 30.0
"""Seconds that Helm gets beyond its own timeout to report why it failed."""


@dataclass(frozen=True)
class Release:
    """One revision of a Helm release."""

    name: str
    namespace: str
    revision: int
    status: str
    """deployed, failed, superseded, pending-install, pending-upgrade, …"""
    chart: str
    chart_version: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values set at installation, without the chart's defaults."""
    manifest: str = ""
    """Its objects as YAML, without those of hooks."""

    @classmethod
    def of_secret(cls, secret: Mapping[str, Any]) -> Release:
        """The release in a Secret of Helm's own storage (type helm.sh/release.v1); LabError for other content.

        Reading it costs one GET instead of a Helm process. The format is base64 of gzip of JSON
        (helm.sh/helm/v3, pkg/storage/driver/util.go), on top of the API's base64.
        """
        try:
            packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
            record = json.loads(gzip.decompress(packed) if packed.startswith(b"\x1f\x8b") else packed)
            metadata = record["chart"]["metadata"]
            return cls(
                name=record["name"],
                namespace=record["namespace"],
                revision=int(record["version"]),
                status=record["info"]["status"],
                chart=metadata["name"],
                chart_version=metadata["version"],
                values=record.get("config") or {},
                manifest=record.get("manifest") or "",
            )
        except (KeyError, TypeError, ValueError, OSError, EOFError, zlib.error) as error:
            name = secret.get("metadata", {}).get("name", "")
            raise LabError(
                f"Secret {name} is not a Helm release: {type(error).__name__}: {error}",
                fix="if a newer Helm wrote it, uninstall the release with that Helm; then run 'kailab up' again",
            ) from error


class Helm:
    """Helm for one cluster: every call names ``kubeconfig`` and ``context``. Methods raise CommandFailed."""

    def __init__(self, run: Runner, binary: Path, kubeconfig: Path, context: str) -> None:
        self._run = run
        self.binary = binary
        self.kubeconfig = kubeconfig
        self.context = context

    def upgrade_install(
        self,
        release: str,
        chart: Path,
        namespace: str,
        values: Mapping[str, Any],
        *,
        hooks: bool = True,
        crds: bool = True,
        validate: bool = True,
        take_ownership: bool = False,
        timeout: float = 300,
    ) -> None:
        """Install a release, or upgrade it to this chart and exactly these values.

        The namespace must exist. ``timeout`` (seconds) applies to each hook. ``crds`` creates the chart's CRDs that do
        not exist. ``validate`` refuses objects with fields that the API's schema does not have; a new API server, and
        one with new CRDs, needs a second or more to compute that schema. ``take_ownership`` lets the chart have objects
        that exist without Helm's labels.
        """
        argv = ["upgrade", "--install", release, str(chart), "--namespace", namespace, "--values", "-"]
        argv += ["--reset-values", "--history-max", str(_HISTORY), "--timeout", f"{timeout:.0f}s"]
        argv += [] if hooks else ["--no-hooks"]
        argv += [] if crds else ["--skip-crds"]
        argv += [] if validate else ["--disable-openapi-validation"]
        argv += ["--take-ownership"] if take_ownership else []
        self._call(argv, stdin=json.dumps(values), timeout=timeout * 2 + _GRACE)

    def uninstall(self, release: str, namespace: str, *, hooks: bool = True, timeout: float = 300) -> None:
        """Uninstall a release; ignore a missing one."""
        argv = ["uninstall", release, "--namespace", namespace, "--ignore-not-found"]
        argv += ["--timeout", f"{timeout:.0f}s"]
        argv += [] if hooks else ["--no-hooks"]
        self._call(argv, timeout=timeout + _GRACE)

    def template(
        self, release: str, chart: Path, namespace: str, values: Mapping[str, Any], *, only: Sequence[str] = ()
    ) -> tuple[dict[str, Any], ...]:
        """The objects that a chart renders, from the templates in ``only`` (paths in the chart) or from all."""
        argv = ["template", release, str(chart), "--namespace", namespace, "--values", "-"]
        argv += [word for path in only for word in ("--show-only", path)]
        out = self._call(argv, stdin=json.dumps(values)).out
        return tuple(yaml_documents(out))

    def _call(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float = 120) -> Result:
        target = ["--kubeconfig", str(self.kubeconfig), "--kube-context", self.context]
        return self._run.run([self.binary, *argv, *target], stdin=stdin, env=_environment(), timeout=timeout)


def _environment() -> dict[str, str]:
    """Variables that blank or replace every HELM_* setting of the user."""
    home = cache_root() / "helm"
    return {
        **{name: "" for name in os.environ if name.startswith("HELM_")},
        "HELM_CACHE_HOME": str(home / "cache"),
        "HELM_CONFIG_HOME": str(home / "config"),
        "HELM_DATA_HOME": str(home / "data"),
        "HELM_PLUGINS": str(home / "data" / "plugins"),
        "HELM_REGISTRY_CONFIG": str(home / "config" / "registry.json"),
        "HELM_REPOSITORY_CONFIG": str(home / "config" / "repositories.yaml"),
        "HELM_REPOSITORY_CACHE": str(home / "cache" / "repository"),
        "HELM_DRIVER": "secret",
        "HELM_NO_PLUGINS": "1",
        # client-go in Helm would write discovery results to ~/.kube/cache
        "KUBECACHEDIR": str(home / "discovery"),
    }
