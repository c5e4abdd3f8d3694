"""Values files of KAI's and vCluster's charts, and kind's own configuration: what the texts of others get wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.findings import Finding
from lab.kai import lines
from lab.lint.document import Loc
from lab.lint.model import LintContext, Manifest, found, rule

_MISSING = object()


def _at(obj: Any, loc: Loc) -> Any:
    for word in loc:
        if not isinstance(obj, dict) or word not in obj:
            return _MISSING
        obj = obj[word]
    return obj


def _is_kai(manifest: Manifest) -> bool:
    return (
        not manifest.kind
        and isinstance(manifest.obj.get("global"), dict)
        and bool(
            {"gpuSharing", "resourceReservation", "leaderElection", "clusterAutoscaling"}
            & manifest.obj["global"].keys()
            or {"podgrouper", "binder", "queuecontroller"} & manifest.obj.keys()
        )
    )


def _is_vcluster(manifest: Manifest) -> bool:
    return not manifest.kind and bool({"controlPlane", "sync", "experimental"} & manifest.obj.keys())


@rule(
    "kai-class-key",
    "the reservation pods' RuntimeClass under another version's key",
    "pkg/binder/binding/resourcereservation/resource_reservation.go and the chart at each tag",
)
def class_key(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The key moved twice; an old one is ignored, and reservation pods run without the NVIDIA runtime."""
    if not _is_kai(manifest):
        return
    right = setting.line.helm.reservation_class
    for key in {line.helm.reservation_class for line in lines().values()} - {right, ""}:
        loc = tuple(key.split("."))
        if _at(manifest.obj, loc) is not _MISSING:
            yield found(
                loc,
                f"{key} is ignored by KAI {setting.line.version}",
                f"write {right}" if right else "this version takes the node's default runtime",
            )


@rule("kai-sharing-not-set", "KAI's values without gpuSharing", "chart value global.gpuSharing, false unless set")
def sharing(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Every pod with a fraction will be refused."""
    if _is_kai(manifest) and _at(manifest.obj, ("global", "gpuSharing")) is not True:
        yield found(("global",), "gpuSharing is off: pods with a fraction are refused", "set gpuSharing: true", "note")


@rule(
    "vcluster-custom-resources",
    "sync of custom resources in vCluster",
    "loft-sh/vcluster-docs PR #886: KAI needs no sync of PodGroups or Queues",
)
def custom_resources(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """It needs vCluster Platform and is not needed: the pod-grouper works on the host's pods."""
    for way in ("fromHost", "toHost"):
        loc = ("sync", way, "customResources")
        if _is_vcluster(manifest) and isinstance(_at(manifest.obj, loc), dict):
            yield found(
                loc,
                "sync of custom resources needs vCluster Platform, and the free vCluster does not start with it;"
                " KAI on the host does not need it",
                "leave it out: labels and annotations of pods are synced anyway",
            )


@rule(
    "vcluster-virtual-scheduler",
    "a virtual scheduler beside the host's KAI",
    "loft-sh/vcluster: with a scheduler inside, pods are synced only once they have a node",
)
def virtual_scheduler(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The host's KAI never sees the tenant's pods then; KAI must run inside."""
    for loc in (
        ("controlPlane", "distro", "k8s", "scheduler", "enabled"),
        ("controlPlane", "advanced", "virtualScheduler", "enabled"),
    ):
        if _is_vcluster(manifest) and _at(manifest.obj, loc) is True:
            yield found(
                loc,
                "with a scheduler inside, the host's KAI never sees this tenant's pods",
                "leave it out for KAI on the host; keep it for KAI inside the tenant",
                "note",
            )


@rule(
    "vcluster-owner-set",
    "synced pods are owned by vCluster's Service",
    "KAI v0.4.3 and newer fall back to the pod, unless they may read Services",
)
def owner(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """setOwner: false keeps KAI's pod-grouper from looking at that Service."""
    if _is_vcluster(manifest) and _at(manifest.obj, ("experimental", "syncSettings", "setOwner")) is True:
        yield found(
            ("experimental", "syncSettings", "setOwner"),
            "synced pods are owned by vCluster's Service, at which KAI's pod-grouper then looks",
            "set experimental.syncSettings.setOwner: false",
            "warning",
        )


@rule(
    "kind-driver-version",
    "a mount that names a driver version",
    "nvidia-container-toolkit: libraries carry the driver's version, which changes with every update",
)
def driver_mount(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The mount breaks, in silence, with the next driver."""
    import re

    if manifest.kind != "Cluster" or not manifest.api.startswith("kind.x-k8s.io/"):
        return
    for number, node in enumerate(manifest.obj.get("nodes") or []):
        for at, mount in enumerate((node.get("extraMounts") or []) if isinstance(node, dict) else []):
            path = str(mount.get("hostPath", "")) if isinstance(mount, dict) else ""
            if re.search(r"\.so\.\d+\.\d+", path):
                yield found(
                    ("nodes", number, "extraMounts", at, "hostPath"),
                    f"{path} names a driver version: after the next driver update Docker mounts an empty directory",
                    "let the lab mount the libraries of the driver that is loaded (gpu.mode: nvidia)",
                    "warning",
                )
