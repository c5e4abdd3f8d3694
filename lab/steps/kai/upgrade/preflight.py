"""Checks before a change whether a cluster can have another KAI version."""

from __future__ import annotations

from lab.config import queue_rules
from lab.errors import SpecError, Unavailable
from lab.kai import line_of
from lab.kai.names import KAI_CHART
from lab.session.context import LabContext
from lab.steps import helm_release
from lab.steps.kai.values import kai_images
from lab.steps.pulled_images import MISSING, pulled_images
from lab.supply import Item
from lab.supply.registry import mirrored

_CRD = "CustomResourceDefinition"


def check_kai_version(ctx: LabContext, where: str) -> tuple[str, ...]:
    """Check whether the cluster of a context can have the KAI of its spec; returns warnings.

    Args:
        ctx: of the cluster, with the wanted KAI.
        where: the cluster in messages, such as ``tenant a``.

    Raises:
        SpecError: the version does not support the cluster's Kubernetes or queues, or is too old.
        Unavailable: its chart or an image is not available.
    """
    spec = ctx.spec
    version, at = spec.kai.version, ("kaiVersion",)
    line = line_of(version)
    broken = list(queue_rules.levels(spec.queues, ("queues",), version, at))
    if broken:
        raise SpecError(
            f"{where} cannot have KAI {version}: {broken[0].what}",
            evidence=[rule.what for rule in broken[1:]],
            fix="name another version: 'kailab kai versions' lists what they support; Kubernetes stays as it is",
        )
    items = [Item("chart", KAI_CHART, line.tag)]
    if ctx.images_in_nodes:
        items += [Item("image", reference) for reference in kai_images(spec)]
    choices = ctx.supply.choose(items).values()
    if missing := [choice for choice in choices if not choice.available]:
        raise Unavailable(
            f"KAI {version} is not available for {where}",
            evidence=[f"{choice.item}: {'; '.join(choice.why)}" for choice in missing],
            fix=missing[0].fix,
        )
    if not ctx.images_in_nodes:
        _refuse_lost_images(ctx, where)
    return (line.warning,) if line.warning else ()


def _refuse_lost_images(ctx: LabContext, where: str) -> None:
    """Raise Unavailable for images that the nodes of a cluster of others cannot pull."""
    wanted = [mirrored(image, ctx.spec.supply.mirrors) for image in kai_images(ctx.spec)]
    if lost := [image for image, at in pulled_images(ctx.cluster(), ctx.spec, wanted).items() if at == MISSING]:
        raise Unavailable(
            f"images of KAI {ctx.spec.kai.version} for {where} are neither on the nodes nor in registries",
            evidence=lost,
            fix="push them there, or name a registry that has them in supply.mirrors",
        )


def check_crds(ctx: LabContext, where: str) -> None:
    """Check that the wanted KAI reads the objects that the cluster stores of KAI's kinds.

    Every CRD of KAI has one version, the same in 0.7.11 to 0.17.0; this is for versions that no line knows. Raises
    SpecError, ApiFailed.
    """
    cluster, line = ctx.cluster(), line_of(ctx.spec.kai.version)
    for doc in helm_release.chart_documents(ctx.supply.chart(KAI_CHART, line.tag), "crds"):
        name, served = doc["metadata"]["name"], {one["name"] for one in doc["spec"]["versions"]}
        stored = ((cluster.get(_CRD, name) or {}).get("status") or {}).get("storedVersions") or []
        if lost := [version for version in stored if version not in served]:
            raise SpecError(
                f"{where} cannot have KAI {line.version}: its CRD {name} lacks version {lost[0]}, which is stored",
                fix="migrate these objects first, or name another version of KAI",
            )
