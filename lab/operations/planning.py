"""Plans a lab: from its spec and the available sources to steps, items and missing items. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.config import LabSpec, TenantSpec
from lab.engine.journal import Journal
from lab.engine.step import Effect, Observed, State, Step
from lab.errors import SpecError, Unavailable
from lab.gpu import gpu_steps
from lab.gpu.nvidia.resolve import resolve_here
from lab.gpu.pools import describe_gpus
from lab.gpu.simulated.assigner import assigner_image
from lab.host.nvidia.discovery import NvidiaFacts
from lab.kai.names import KAI_CHART
from lab.session.context import LabContext
from lab.session.lab import OWN_NETWORK
from lab.steps import kai
from lab.steps.cluster import KindCluster
from lab.steps.cluster.config import has_gpus
from lab.steps.cluster.existing import ExistingCluster, ReadyNodes
from lab.steps.host import HostReady
from lab.steps.loaded_images import LoadedImages
from lab.steps.node_image import NodeImage, builds_needed, control_plane_images
from lab.steps.pod_network import PodNetwork
from lab.steps.queues import queue_steps
from lab.steps.registry_mirrors import mirror_steps
from lab.supply import Choice, Item, Supply
from lab.tenants.steps import tenant_steps
from lab.tenants.vcluster.inner_lab import inner_spec
from lab.tenants.vcluster.values import CHART, tenant_images
from lab.text import count
from lab.workloads import pods

DEVICE_PLUGIN = Item("image", "nvcr.io/nvidia/k8s-device-plugin:v0.18.0")


_CHOSEN = "the lab file has scheduler: default"
_NONE = "the lab file has kai.manage: none"


@dataclass(frozen=True)
class Plan:
    """The plan of a lab: ``spec`` has no ``auto`` left; ``missing`` are required items that no source has."""

    spec: LabSpec
    steps: tuple[Step[LabContext], ...]
    choices: tuple[Choice, ...]
    missing: tuple[Choice, ...]
    notices: tuple[str, ...]
    facts: Mapping[str, str]
    host_effects: tuple[Effect, ...] = ()

    def refuse_missing(self) -> None:
        """Raise Unavailable when a required item is not available."""
        _refuse_missing(self.missing)

    def critical_path(self, seconds: Mapping[str, float], seen: Mapping[str, Observed] | None = None) -> float | None:
        """Estimated seconds of the longest chain of steps, from earlier runs; None without any earlier run."""
        if not any(step.id in seconds for step in self.steps):
            return None
        ends: dict[str, float] = {}

        def end(step: Step[LabContext]) -> float:
            if step.id not in ends:
                ready = seen is not None and step.id in seen and seen[step.id].state is State.READY
                own = 0.0 if ready else seconds.get(step.id, 0.0)
                ends[step.id] = own + max((end(by_id[need]) for need in step.needs), default=0.0)
            return ends[step.id]

        by_id = {step.id: step for step in self.steps}
        return max(map(end, self.steps), default=0.0)


def resolve_gpus(
    spec: LabSpec, facts: NvidiaFacts | None = None, journal: Journal | None = None
) -> tuple[LabSpec, tuple[str, ...]]:
    """Replace ``gpu.mode: auto`` and ``gpu.strategy: auto``; returns the spec and notices.

    Args:
        spec: the lab file.
        facts: this machine's GPUs; None for a bundle, where ``auto`` becomes a simulation.
        journal: the lab's journal, which records the GPUs of its running cluster.

    Raises:
        SpecError: GPUs were requested that are missing or in use.
        HostNotReady: real GPUs were requested by name and are not available here.
    """
    if facts is not None and journal is not None:
        return resolve_here(spec, facts, journal)
    mode = "simulated" if spec.gpu.mode == "auto" else spec.gpu.mode
    return spec.model_copy(update={"gpu": spec.gpu.model_copy(update={"mode": mode})}), ()


def resolve_scheduler(spec: LabSpec, supply: Supply, require: frozenset[str] = frozenset()) -> tuple[LabSpec, str]:
    """Replace ``scheduler: auto`` by ``kai`` where every part of KAI is available, otherwise by ``default``.

    Returns:
        The spec, and why the lab has no KAI (empty when it has one).

    Raises:
        Unavailable: KAI is required and not available.
        SpecError: KAI is required, and the lab file selects the default scheduler.
    """
    without = _CHOSEN if spec.scheduler == "default" else _NONE if spec.kai.manage == "none" else ""
    if without:
        if "kai" in require:
            raise SpecError(
                f"KAI is required, but {without}", fix="set scheduler: kai or auto, and kai.manage: install or adopt"
            )
        return spec.model_copy(update={"scheduler": "default"}), without
    if spec.kai.manage == "adopt":  # ``resolve_existing`` has found it
        return spec.model_copy(update={"scheduler": "kai"}), ""
    if not spec.cluster.own:  # its nodes pull the images
        chart = supply.choose([Item("chart", KAI_CHART)])[Item("chart", KAI_CHART)]
        if chart.available:
            return spec.model_copy(update={"scheduler": "kai"}), ""
    choices = supply.choose([Item("chart", KAI_CHART), *(Item("image", r) for r in kai.images(spec))]).values()
    missing = [choice for choice in choices if not choice.available]
    if not missing:
        return spec.model_copy(update={"scheduler": "kai"}), ""
    reasons = [f"{choice.item}: {'; '.join(choice.why)}" for choice in missing]
    if spec.scheduler == "kai" or "kai" in require:
        what = f"KAI {spec.kai.version} is required but not available"
        raise Unavailable(what, evidence=reasons[:4], fix=missing[0].fix)
    return spec.model_copy(update={"scheduler": "default"}), f"KAI {spec.kai.version} is not available: {reasons[0]}"


def items_needed(spec: LabSpec, supply: Supply) -> tuple[Item, ...]:
    """Every binary, image and chart that a resolved lab needs."""
    if not spec.cluster.own:
        return _items_of_charts(spec, supply)
    items = [Item("binary", name) for name in ("kind", "kubectl")]
    images = [*control_plane_images(supply), Item("image", pods.IMAGE)]
    if supply.own_node or spec.tenants:
        images.append(Item("image", "registry.k8s.io/coredns/coredns:v1.12.4"))
    if has_gpus(spec):
        items += [] if supply.ready_node else [Item("binary", "container-toolkit")]
        images.append(DEVICE_PLUGIN)
    items += _items_of_charts(spec, supply)
    images += [Item("image", reference) for reference in images_of_charts(spec)]
    images += [Item("image", reference) for reference in spec.images]
    if spec.inference.image and spec.gpu.mode == "nvidia":
        images.append(Item("image", spec.inference.image))
    return tuple(dict.fromkeys([*items, supply.base_node, *images]))


def _inner(spec: LabSpec) -> Iterator[LabSpec]:
    """The labs inside own-kai tenants."""
    return (inner_spec(spec, tenant) for tenant in spec.tenants if tenant.mode == "own-kai")


def _items_of_charts(spec: LabSpec, supply: Supply) -> tuple[Item, ...]:
    """Helm, and the charts of KAI and vCluster that the lab installs."""
    items = [Item("chart", name) for name in (kai.charts(spec) if spec.scheduler == "kai" else ())]
    items += [supply.item("chart", CHART, tenant.vcluster) for tenant in spec.tenants]
    items += [supply.item("chart", KAI_CHART, inner.kai.version) for inner in _inner(spec)]
    tools = ["helm"] if items else []
    if spec.tenants and not spec.cluster.own:
        tools.append("kubectl")  # for port-forwards to tenants
    return (*dict.fromkeys(items), *(Item("binary", name) for name in tools))


def images_of_charts(spec: LabSpec) -> tuple[str, ...]:
    """References of the images of KAI, vClusters and what they contain, and of the lab's own pods."""
    found = list(kai.images(spec) if spec.scheduler == "kai" else ())
    found += [image] if (image := assigner_image(spec)) else []
    found += [reference for tenant in spec.tenants for reference in tenant_images(tenant)]
    found += [reference for inner in _inner(spec) for reference in kai.images(inner)]
    return tuple(dict.fromkeys(found))


def build_plan(
    spec: LabSpec,
    supply: Supply,
    host: HostReady,
    *,
    no_kai: str,
    notices: Sequence[str],
    facts: Mapping[str, str],
    added: Collection[str] = (),
) -> Plan:
    """Build the plan of a resolved lab.

    Args:
        spec: without any ``auto``.
        supply: where items come from.
        host: the step that prepares the machine.
        no_kai: why there is no KAI; empty when there is.
        notices: warnings to include.
        facts: further facts of the lab.
        added: tenants that were added to the running lab. The node image does not contain their images, and the plan
            has none of their own steps, but what the host does for them stays.
    """
    of_file = spec.model_copy(update={"tenants": tuple(t for t in spec.tenants if t.name not in added)})
    items = items_needed(of_file, supply)
    choices = tuple(supply.choose(items).values())
    fetches = builds_needed(choices, supply)
    host = host.of_plan(builds=any(choice.source == "build" for choice in choices))
    first = (host.id, *(fetch.id for fetch in fetches))
    in_nodes = [item for item in items if item.kind == "image" and item != supply.base_node]
    node_images = (NodeImage.of(spec, supply, in_nodes, first),) if spec.cluster.own else ()
    tag = node_images[0].tag if node_images else ""
    own_node = spec.cluster.own and supply.own_node
    every: tuple[Step[LabContext], ...] = (host, *fetches, *node_images, *cluster_steps(spec, tag, own_node))
    steps = tuple(step for step in every if step.id.partition(":")[2] not in added)
    all_facts = {
        "lab": spec.name,
        "provider": spec.cluster.provider,
        "kubernetes": spec.cluster.kubernetes,
        "nodes": str(spec.cluster.control_planes + spec.cluster.workers),
        "gpu_mode": spec.gpu.mode if has_gpus(spec) or not spec.cluster.own else "none",
        "gpus": describe_gpus(spec) if has_gpus(spec) else "",
        "scheduler": spec.scheduler,
        "kai_version": spec.kai.version if spec.scheduler == "kai" else "",
        "no_kai": no_kai,
        "tenants": spec.tenants_in_words,
        "node_image": tag,
        "pod_network": "" if not spec.cluster.own else OWN_NETWORK if own_node else "kindnet",
        **facts,
    }
    missing = tuple(choice for choice in choices if not choice.available)
    return Plan(spec, steps, choices, missing, (*notices, *no_kai_notice(spec, no_kai)), all_facts, host.effects())


def no_kai_notice(spec: LabSpec, no_kai: str) -> tuple[str, ...]:
    """The warning about a lab without KAI, unless its file wants none; ``no_kai`` is the reason, or empty."""
    if not no_kai or (no_kai in (_CHOSEN, _NONE) and not spec.queues):
        return ()
    without = [tenant.name for tenant in spec.tenants if tenant.mode == "host-kai"]
    whose = "Pods" if not without else f"Pods, those of {', '.join(without)} too,"
    queues = "; queues are left out" if spec.queues else ""
    return (f"NO KAI SCHEDULER in this lab: {no_kai}. {whose} run on the default scheduler{queues}.",)


PARTS: tuple[Callable[[LabSpec], Iterable[Step[LabContext]]], ...] = (
    mirror_steps,
    gpu_steps,
    kai.kai_steps,
    queue_steps,
    tenant_steps,
)
"""What a lab has on its cluster, in the order of the plan: each part turns the lab file into its steps."""


def cluster_steps(spec: LabSpec, node_image: str, own: bool) -> tuple[Step[LabContext], ...]:
    """The cluster and everything on it.

    Args:
        spec: without any ``auto``.
        node_image: tag of the image that the nodes are made of.
        own: that image is built here, without a CNI.
    """
    parts = (step for part in PARTS for step in part(spec))
    if not spec.cluster.own:
        return (ExistingCluster(spec), ReadyNodes(spec), *parts)
    return (KindCluster(spec, node_image, own), PodNetwork(spec, own), *parts)


def teardown_steps(spec: LabSpec) -> tuple[Step[LabContext], ...]:
    """All steps of a lab to remove; needs neither sources nor a node image."""
    images = (NodeImage(spec, (), ""),) if spec.cluster.own else ()
    return (*images, *cluster_steps(spec, "", own=True))


def loading_steps(spec: LabSpec, tenant: TenantSpec, supply: Supply) -> tuple[Step[LabContext], ...]:
    """The steps that load a tenant's images into nodes that were made without them: fetches, then ``images:NAME``.

    Raises:
        Unavailable: an item that the tenant needs is not available.
    """
    alone = spec.model_copy(update={"tenants": (tenant,)})
    without = set(items_needed(spec.model_copy(update={"tenants": ()}), supply))
    choices = tuple(supply.choose([item for item in items_needed(alone, supply) if item not in without]).values())
    missing = [choice for choice in choices if not choice.available]
    _refuse_missing(missing, f" of tenant {tenant.name}")
    fetches = builds_needed(choices, supply)
    if not spec.cluster.own:  # its nodes pull the images
        return fetches
    images = tuple(choice.item.name for choice in choices if choice.item.kind == "image")
    return (*fetches, LoadedImages(tenant.name, images, tuple(fetch.id for fetch in fetches)))


def _refuse_missing(missing: Sequence[Choice], of: str = "") -> None:
    """Raise Unavailable with the sources that were tried for each missing item."""
    if missing:
        raise Unavailable(
            f"{count(len(missing), 'required item')}{of} {'is' if len(missing) == 1 else 'are'} not available from any"
            " configured source",
            evidence=[line for choice in missing for line in (str(choice.item), *(f"    {why}" for why in choice.why))],
            fix="; ".join(dict.fromkeys(choice.fix for choice in missing)),
        )
