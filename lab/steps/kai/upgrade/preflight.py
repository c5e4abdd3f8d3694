"""Checks before a change whether a cluster can have another KAI version."""

from __future__ import annotations

from lab.config import queue_rules
from lab.config.rules import kai_on
from lab.errors import SpecError, Unavailable
from lab.kai import line_of
from lab.kai.names import KAI_CHART
from lab.session.context import LabContext
from lab.steps import helm_release
from lab.steps.kai.values import kai_images
from lab.supply import Item

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
    broken = [
        *kai_on(version, spec.cluster.kubernetes, at, ("kubernetes",)),
        *queue_rules.levels(spec.queues, ("queues",), version, at),
    ]
    if broken:
        raise SpecError(
            f"{where} cannot have KAI {version}: {broken[0].what}",
            evidence=[rule.what for rule in broken[1:]],
            fix="name another version: 'lab kai versions' lists what they support; Kubernetes stays as it is",
        )
    chart = Item("chart", KAI_CHART, line.tag)
    choices = ctx.supply.choose([chart, *(Item("image", reference) for reference in kai_images(spec))]).values()
    if missing := [choice for choice in choices if not choice.available]:
        raise Unavailable(
            f"KAI {version} is not available for {where}",
            evidence=[f"{choice.item}: {'; '.join(choice.why)}" for choice in missing],
            fix=missing[0].fix,
        )
    return (line.warning,) if line.warning else ()


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
