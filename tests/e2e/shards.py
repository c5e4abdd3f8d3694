"""Change KAI's SchedulingShard, for which KAI's operator rolls out a new scheduler; KAI 0.12 and newer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lab.kai import line_of
from lab.kube.readiness import is_ready
from lab.session.lab import Lab
from lab.steps.kai.step import NAMESPACE
from lab.workloads.temporary import changed

from .scheduling_decisions import WAIT

SHARD = ("SchedulingShard", "default")

Json = dict[str, Any]


def spread_by(lab: Lab) -> str:
    """Return the default shard's placement strategy for GPUs if it spreads pods; KAI's own packs them."""
    shard = lab.cluster.get(*SHARD) if "shards" in line_of(str(lab.kai_version)).features else None
    strategy = ((shard or {}).get("spec") or {}).get("placementStrategy") or {}
    return f"placementStrategy.gpu is {strategy['gpu']}" if strategy.get("gpu") == "spread" else ""


@contextmanager
def shard_changed(lab: Lab, change: Json) -> Iterator[None]:
    """Merge ``change`` into the default shard's spec until the end of the block, and wait until its scheduler uses it.

    Raises:
        WaitTimeout: the operator did not roll the scheduler out.
    """
    cluster, name = lab.cluster, line_of(str(lab.kai_version)).scheduler_app
    before = _configuration(lab, name)
    try:
        with changed(cluster, lab.spec.name, *SHARD, {"spec": change}):
            _rolled_out(lab, name, lambda text: text != before, f"KAI's scheduler runs with {change}")
            yield
    finally:
        _rolled_out(lab, name, lambda text: text == before, "KAI's scheduler runs as it did before")


def _configuration(lab: Lab, name: str) -> str:
    """Return the scheduler's configuration file, from the ConfigMap with the Deployment's name."""
    return _text(lab.cluster.get("ConfigMap", name, NAMESPACE))


def _text(config: Json | None) -> str:
    return str((config or {}).get("data", {}).get("config.yaml", ""))


def _rolled_out(lab: Lab, name: str, wanted: Callable[[str], bool], what: str) -> None:
    """Wait until the Deployment runs with the newest ConfigMap (its pods are annotated configMapVersion)."""

    def runs(deployments: list[Json]) -> bool:
        config = lab.cluster.get("ConfigMap", name, NAMESPACE) or {"metadata": {}}
        version = config["metadata"].get("resourceVersion")
        return wanted(_text(config)) and any(
            is_ready(deployment)
            and (deployment["spec"]["template"]["metadata"].get("annotations") or {}).get("configMapVersion") == version
            for deployment in deployments
        )

    lab.cluster.wait("Deployment", runs, namespace=NAMESPACE, fields=f"metadata.name={name}", timeout=WAIT, what=what)
