"""Rules about values files of KAI's and vCluster's charts, and kind's configuration: mistakes of published guides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lab.findings import Finding
from lab.kai import facts, lines, release
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, finding, rule
from lab.lint.workloads import mapping
from lab.text import nearest

_MISSING = object()
_OWN = frozenset({"podgrouper", "podgroupcontroller", "queuecontroller", "nodescaleadjuster", "defaultShard"})
"""Top-level keys that only KAI's chart has."""


def _at(obj: Any, loc: Loc) -> Any:
    for key in loc:
        if not isinstance(obj, dict) or key not in obj:
            return _MISSING
        obj = obj[key]
    return obj


def _is_kai(manifest: Manifest) -> bool:
    """Whether it is a values file of KAI's chart: by the command line, or by keys that other charts do not have."""
    if manifest.document.values or manifest.kind:
        return bool(manifest.document.values)
    keys = {"gpuSharing", "resourceReservation", "leaderElection", "clusterAutoscaling"}
    return bool(keys & mapping(manifest.obj.get("global")).keys() and "apiVersion" not in manifest.obj) or bool(
        _OWN & manifest.obj.keys()
    )


def _leaves(obj: Any, loc: Loc = ()) -> Iterator[Loc]:
    """Yield the locations of all values that are not maps."""
    for key, value in obj.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*loc, str(key)))
        else:
            yield (*loc, str(key))


@rule("kai-value-unknown", "lab/kai/derived/chart_values.json: the chart's values.yaml and templates at each tag")
def unknown_value(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A value that KAI's chart does not read: Helm ignores it without a message."""
    if not _is_kai(manifest):
        return
    version = ctx.line.version
    moved = {line.helm.reservation_class for line in lines().values()}
    for loc in _leaves(manifest.obj):
        key = ".".join(map(str, loc))
        if facts.has_value(version, key) or key in moved:  # kai-class-key reports those
            continue
        if ctx.line.newer:
            what = f"{key} is unknown to this release of kailab, which knows KAI up to {facts.releases()[-1]}"
            yield finding(loc, what, f"look for it in values.yaml of KAI {version}", "note")
            continue
        having = [one for one in facts.releases() if facts.has_value(one, key)]
        near = nearest(key, facts.chart_values(version), 0.8)
        fix = f"perhaps you meant {near}" if near else "remove it"
        newer = next((one for one in having if release(one) > release(version)), "")
        if newer:
            fix = f"KAI {newer} and newer read it"
        elif having:
            fix = f"KAI {having[-1]} was the last to read it; {fix}"
        yield finding(loc, f"the chart of KAI {version} does not read {key}; Helm ignores it", fix, "warning")


def _is_vcluster(manifest: Manifest) -> bool:
    return not manifest.kind and bool({"controlPlane", "sync", "experimental"} & manifest.obj.keys())


@rule("kai-class-key", "pkg/binder/binding/resourcereservation/resource_reservation.go and the chart at each tag")
def class_key(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """The reservation pods' RuntimeClass under another version's key.

    The key moved twice; KAI ignores an old one, and reservation pods run without the NVIDIA runtime.
    """
    right = ctx.line.helm.reservation_class
    keys = {line.helm.reservation_class for line in lines().values()} - {right, ""} if _is_kai(manifest) else ()
    for key in keys:
        loc = tuple(key.split("."))
        if _at(manifest.obj, loc) is not _MISSING:
            fix = f"write {right}" if right else "remove it: this version uses the node's default runtime"
            yield finding(loc, f"KAI {ctx.line.version} ignores {key}", fix)


@rule("kai-sharing-not-set", "chart value global.gpuSharing, false unless set")
def sharing(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """KAI's values without gpuSharing."""
    whole = _is_kai(manifest) and manifest.document.values != "set"
    if whole and _at(manifest.obj, ("global", "gpuSharing")) is not True:
        what = "gpuSharing is off: admission refuses pods with a fraction"
        yield finding(("global",), what, "set gpuSharing: true", "note")


@rule("vcluster-custom-resources", "loft-sh/vcluster-docs PR #886: KAI needs no sync of PodGroups or Queues")
def custom_resources(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Sync of custom resources in vCluster: KAI does not need it, since the pod-grouper handles the host's pods."""
    for direction in ("fromHost", "toHost"):
        loc = ("sync", direction, "customResources")
        if _is_vcluster(manifest) and isinstance(_at(manifest.obj, loc), dict):
            yield finding(
                loc,
                "sync of custom resources needs vCluster Platform, and the free vCluster does not start with it;"
                " KAI on the host does not need it",
                "remove it: labels and annotations of pods are synced anyway",
            )


@rule(
    "vcluster-virtual-scheduler",
    "loft-sh/vcluster: with a scheduler inside, pods are synced only once they have a node",
)
def virtual_scheduler(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A virtual scheduler beside the host's KAI: KAI then has to run inside the tenant."""
    for loc in (
        ("controlPlane", "distro", "k8s", "scheduler", "enabled"),
        ("controlPlane", "advanced", "virtualScheduler", "enabled"),
    ):
        if _is_vcluster(manifest) and _at(manifest.obj, loc) is True:
            yield finding(
                loc,
                "with a scheduler inside, the host's KAI never sees this tenant's pods",
                "remove it for KAI on the host; keep it for KAI inside the tenant",
                "note",
            )


@rule("vcluster-owner-set", "KAI v0.4.3 and newer fall back to the pod, unless they may read Services")
def owner(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Synced pods are owned by vCluster's Service."""
    loc = ("experimental", "syncSettings", "setOwner")
    if _is_vcluster(manifest) and _at(manifest.obj, loc) is True:
        yield finding(
            loc,
            "vCluster's Service owns the synced pods, so KAI's pod-grouper reads that Service",
            "set experimental.syncSettings.setOwner: false",
            "warning",
        )


@rule(
    "kind-driver-version",
    "nvidia-container-toolkit: libraries carry the driver's version, which changes with every update",
)
def driver_mount(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A mount that names a driver version."""
    if manifest.kind != "Cluster" or not manifest.api.startswith("kind.x-k8s.io/"):
        return
    for number, node in enumerate(manifest.obj.get("nodes") or []):
        for index, mount in enumerate(mapping(node).get("extraMounts") or []):
            path = str(mapping(mount).get("hostPath", ""))
            if re.search(r"\.so\.\d+\.\d+", path):
                yield finding(
                    ("nodes", number, "extraMounts", index, "hostPath"),
                    f"{path} names a driver version: after the next driver update Docker mounts an empty directory",
                    "let the lab mount the libraries of the loaded driver (gpu.mode: nvidia)",
                    "warning",
                )
