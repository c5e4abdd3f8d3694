"""Façade over Helm 3: the verbs the lab needs, away from the user's own Helm settings and clusters."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.paths import cache_root
from lab.tools.process import Result, Runner

_CHART = re.compile(r"^(?P<name>.+?)-(?P<version>v?\d+\..*)$")
_HISTORY = 3
_GRACE = 30.0
"""Seconds that Helm gets beyond its own timeout to say why it failed."""


@dataclass(frozen=True)
class Release:
    """A Helm release, one revision of it."""

    name: str
    namespace: str
    revision: int
    status: str
    """deployed, failed, superseded, pending-install, pending-upgrade, …"""
    chart: str
    chart_version: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """What the user of the chart set, without the chart's defaults; not filled by ``list``."""

    @classmethod
    def of_secret(cls, secret: Mapping[str, Any]) -> Release:
        """The release in a Secret of Helm's own storage (type helm.sh/release.v1).

        Read this way it costs one GET instead of a Helm process. The format is base64 of gzip of JSON
        (helm.sh/helm/v3, pkg/storage/driver/util.go), on top of the API's base64.

        Raises:
            LabError: the Secret holds something else.
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
            )
        except (KeyError, TypeError, ValueError, OSError, EOFError, zlib.error) as error:
            name = secret.get("metadata", {}).get("name", "")
            raise LabError(
                f"Secret {name} is not a Helm release: {type(error).__name__}: {error}",
                fix="if a newer Helm wrote it, uninstall the release with that Helm; then run 'lab up' again",
            ) from error


class Helm:
    """Helm for one cluster.

    Args:
        run: how commands are run.
        binary: the helm program.
        kubeconfig: kubeconfig file; named in every call.
        context: context in that file; named in every call.
        home: where Helm keeps its cache, settings and plugins; in the lab's cache when None.
    """

    def __init__(self, run: Runner, binary: Path, kubeconfig: Path, context: str, home: Path | None = None) -> None:
        self._run = run
        self.binary = binary
        self.kubeconfig = kubeconfig
        self.context = context
        self._home = home

    def upgrade_install(
        self,
        release: str,
        chart: Path | str,
        namespace: str,
        values: Mapping[str, Any],
        *,
        version: str = "",
        hooks: bool = True,
        crds: bool = True,
        wait: bool = False,
        timeout: float = 300,
    ) -> None:
        """Install a release, or upgrade it to this chart and exactly these values.

        Args:
            release: its name.
            chart: a chart file or folder, or an ``oci://`` reference.
            namespace: where; it must exist.
            values: instead of all earlier ones.
            version: of an ``oci://`` chart.
            hooks: run the chart's hooks.
            crds: create the chart's CRDs that do not exist.
            wait: until Helm thinks the objects are ready.
            timeout: seconds, for each hook and for ``wait``.

        Raises:
            CommandFailed: Helm's own words are the evidence.
        """
        argv = ["upgrade", "--install", release, str(chart), "--namespace", namespace, "--values", "-"]
        argv += ["--reset-values", "--history-max", str(_HISTORY), "--timeout", f"{timeout:.0f}s"]
        argv += ["--version", version] if version else []
        argv += [] if hooks else ["--no-hooks"]
        argv += [] if crds else ["--skip-crds"]
        argv += ["--wait"] if wait else []
        self._call(argv, stdin=json.dumps(values), timeout=timeout * 2 + _GRACE)

    def uninstall(
        self, release: str, namespace: str, *, hooks: bool = True, wait: bool = False, timeout: float = 300
    ) -> None:
        """Remove a release; already gone is success. Raises CommandFailed."""
        argv = ["uninstall", release, "--namespace", namespace, "--ignore-not-found"]
        argv += ["--timeout", f"{timeout:.0f}s"]
        argv += [] if hooks else ["--no-hooks"]
        argv += ["--wait"] if wait else []
        self._call(argv, timeout=timeout + _GRACE)

    def list(self, namespace: str | None = None, name: str | None = None) -> tuple[Release, ...]:
        """The newest revision of each release in any status; None: all namespaces. Raises CommandFailed."""
        where = ["--namespace", namespace] if namespace else ["--all-namespaces"]
        only = ["--filter", f"^{re.escape(name)}$"] if name else []
        rows = json.loads(self._call(["list", "--all", *where, *only, "--output", "json"]).out or "[]")
        return tuple(_row(row) for row in rows)

    def status(self, release: str, namespace: str) -> Release | None:
        """The newest revision of a release, or None. Raises CommandFailed."""
        return next(iter(self.list(namespace, release)), None)

    def values(self, release: str, namespace: str) -> dict[str, Any]:
        """What was set at the last install or upgrade. Raises CommandFailed: there is no such release."""
        out = self._call(["get", "values", release, "--namespace", namespace, "--output", "json"]).out
        return json.loads(out) or {}

    def template(
        self,
        release: str,
        chart: Path | str,
        namespace: str,
        values: Mapping[str, Any],
        *,
        only: Sequence[str] = (),
        version: str = "",
    ) -> tuple[dict[str, Any], ...]:
        """The objects a chart renders, without asking any cluster.

        Args:
            release: name of the release.
            chart: a chart file or folder, or an ``oci://`` reference.
            namespace: where it would be installed.
            values: values over the chart's defaults.
            only: templates by their path in the chart; all of them when empty.
            version: of an ``oci://`` chart.

        Raises:
            CommandFailed: the chart refuses the values, or has no such template.
        """
        import yaml

        argv = ["template", release, str(chart), "--namespace", namespace, "--values", "-"]
        argv += [word for path in only for word in ("--show-only", path)]
        argv += ["--version", version] if version else []
        out = self._call(argv, stdin=json.dumps(values)).out
        return tuple(doc for doc in yaml.load_all(out, Loader=_loader()) if doc)

    def _call(self, argv: Sequence[str], *, stdin: str | None = None, timeout: float = 120) -> Result:
        target = ["--kubeconfig", str(self.kubeconfig), "--kube-context", self.context]
        return self._run.run([self.binary, *argv, *target], stdin=stdin, env=self._environment(), timeout=timeout)

    def _environment(self) -> dict[str, str]:
        """Variables that keep the user's settings out: every HELM_* of theirs is blanked or replaced."""
        home = self._home or cache_root() / "helm"
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
            # kubectl's library inside Helm would write discovery results to ~/.kube/cache
            "KUBECACHEDIR": str(home / "discovery"),
        }


def _row(row: Mapping[str, Any]) -> Release:
    parts = _CHART.match(row["chart"])
    return Release(
        name=row["name"],
        namespace=row["namespace"],
        revision=int(row["revision"]),
        status=row["status"],
        chart=parts["name"] if parts else row["chart"],
        chart_version=parts["version"] if parts else "",
    )


def _loader() -> Any:
    """YAML's safe loader, in C where PyYAML has it: a chart's CRDs take seconds otherwise."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
