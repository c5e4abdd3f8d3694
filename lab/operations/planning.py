"""spec + facts + choices → Plan: which steps, what they need, what cannot be had. Pure; nothing is changed here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab import tenants
from lab.config import LabSpec, TenantSpec
from lab.engine.journal import Journal
from lab.engine.step import Effect, Observed, State, Step
from lab.errors import SpecError, Unavailable
from lab.gpu import gpu_steps
from lab.gpu.nvidia.resolve import resolve_here
from lab.gpu.pools import said
from lab.host.nvidia.discovery import NvidiaFacts
from lab.kai.names import KAI_CHART
from lab.session.context import LabContext
from lab.steps import kai
from lab.steps.cluster import KindCluster
from lab.steps.cluster.config import has_gpus
from lab.steps.host import HostReady
from lab.steps.node_image import Fetch, NodeImage, base_image, builds_needed, control_plane_images, own_node
from lab.steps.pod_network import PodNetwork
from lab.steps.queues import queue_steps
from lab.steps.registry_mirrors import RegistryMirrors
from lab.supply import Choice, Item, Supply
from lab.tenants.steps import tenancy_steps
from lab.tenants.vcluster.images import TenantImages
from lab.tenants.vcluster.inner_lab import inner_spec
from lab.text import count
from lab.workloads import pods

DEVICE_PLUGIN = Item("image", "nvcr.io/nvidia/k8s-device-plugin:v0.18.0")


@dataclass(frozen=True)
class Plan:
    """A lab, resolved: ``spec`` has no ``auto`` left. ``missing`` are items without which the lab cannot come up."""

    spec: LabSpec
    steps: tuple[Step[LabContext], ...]
    choices: tuple[Choice, ...]
    missing: tuple[Choice, ...]
    notices: tuple[str, ...]
    facts: Mapping[str, str]
    host_effects: tuple[Effect, ...] = ()

    def refuse_missing(self) -> None:
        """Raise Unavailable when something the lab needs cannot be had."""
        if self.missing:
            lines = [
                line for choice in self.missing for line in (f"{choice.item}", *(f"    {why}" for why in choice.why))
            ]
            fixes = list(dict.fromkeys(choice.fix for choice in self.missing))
            raise Unavailable(
                f"{count(len(self.missing), 'thing')} this lab needs cannot be had",
                evidence=lines,
                fix="; ".join(fixes),
            )

    def critical_path(self, seconds: Mapping[str, float], seen: Mapping[str, Observed] | None = None) -> float | None:
        """Seconds the steps will take by earlier runs, along the longest chain; None when nothing is known."""
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

    def as_json(self) -> dict[str, Any]:
        return {
            "lab": self.spec.name,
            "facts": self.facts,
            "notices": self.notices,
            "steps": [
                {"id": step.id, "title": step.title, "needs": step.needs, "effects": step.effects()}
                for step in self.steps
            ],
            "supply": self.choices,
            "missing": [str(choice.item) for choice in self.missing],
        }


def resolve_gpus(
    spec: LabSpec, facts: NvidiaFacts | None = None, journal: Journal | None = None
) -> tuple[LabSpec, tuple[str, ...]]:
    """Replace ``gpu.mode: auto`` and ``gpu.strategy: auto``. A simulation is always called one.

    Args:
        spec: the lab file.
        facts: this machine's GPUs; None where no machine is meant (a bundle), and auto is a simulation then.
        journal: the lab's, which knows the GPUs of a cluster that is there.

    Raises:
        SpecError: somebody else's cluster was asked for, or GPUs that are not there or not free.
        HostNotReady: real GPUs were asked for by name and cannot be had here.
    """
    if spec.cluster.provider == "existing":
        raise SpecError(
            "cluster.provider 'existing' is not in this release: labs run on kind clusters of their own",
            fix="set cluster.provider to 'kind'",
        )
    if facts is not None and journal is not None:
        return resolve_here(spec, facts, journal)
    mode = "simulated" if spec.gpu.mode == "auto" else spec.gpu.mode
    return spec.model_copy(update={"gpu": spec.gpu.model_copy(update={"mode": mode})}), ()


def resolve_scheduler(
    spec: LabSpec, supply: Supply, require: frozenset[str] = frozenset()
) -> tuple[LabSpec, str, tuple[Choice, ...]]:
    """Replace ``scheduler: auto`` by kai where all of KAI can be had, otherwise by default.

    Returns:
        The spec, why there is no KAI (empty when there is), and the choices of KAI's parts.

    Raises:
        Unavailable: KAI is required and cannot be had.
    """
    if spec.scheduler == "default":
        if "kai" in require:
            raise SpecError(
                "the lab file says scheduler: default, but KAI is required", fix="set scheduler to kai or auto"
            )
        return spec, "the lab file asks for the default scheduler", ()
    choices = tuple(supply.choose([Item("chart", KAI_CHART), *(Item("image", r) for r in kai.images(spec))]).values())
    missing = [choice for choice in choices if not choice.available]
    if not missing:
        return spec.model_copy(update={"scheduler": "kai"}), "", choices
    first = missing[0]
    reason = f"KAI {spec.kai.version} cannot be had: {first.item} ({'; '.join(first.why)})"
    if spec.scheduler == "kai" or "kai" in require:
        raise Unavailable(
            f"KAI {spec.kai.version} is required and cannot be had",
            evidence=[f"{c.item}: {'; '.join(c.why)}" for c in missing[:4]],
            fix=first.fix,
        )
    return spec.model_copy(update={"scheduler": "default"}), reason, choices


def items_needed(spec: LabSpec, supply: Supply) -> tuple[Item, ...]:
    """Every binary, image and chart of a resolved lab."""
    items = [Item("binary", name) for name in ("kind", "kubectl")]
    images = [*control_plane_images(spec, supply), Item("image", pods.IMAGE)]
    if own_node(spec, supply) or spec.tenants:
        images.append(Item("image", "registry.k8s.io/coredns/coredns:v1.12.4"))
    if has_gpus(spec):
        items.append(Item("binary", "container-toolkit"))
        images.append(DEVICE_PLUGIN)
    if spec.scheduler == "kai":
        images += [Item("image", reference) for reference in kai.images(spec)]
        items.append(Item("chart", KAI_CHART))
    if spec.tenants:
        images += [Item("image", reference) for reference in tenants.images(spec)]
        items += [supply.item("chart", "vcluster", tenant.vcluster) for tenant in spec.tenants]
    for inner in (inner_spec(spec, tenant) for tenant in spec.tenants if tenant.mode == "own-kai"):
        images += [Item("image", reference) for reference in kai.images(inner)]
        items.append(supply.item("chart", KAI_CHART, inner.kai.version))
    if spec.tenants or spec.scheduler == "kai":
        items.append(Item("binary", "helm"))
    images += [Item("image", reference) for reference in spec.images]
    if spec.inference.image and spec.gpu.mode == "nvidia":
        images.append(Item("image", spec.inference.image))
    return tuple(dict.fromkeys([*items, base_image(spec), *images]))


def build_plan(
    spec: LabSpec,
    supply: Supply,
    host: HostReady,
    *,
    no_kai: str,
    notices: Sequence[str],
    facts: Mapping[str, str],
    added: Collection[str] = (),
    leave_alone: bool = False,
) -> Plan:
    """Put the steps of a resolved lab together.

    Args:
        spec: without any ``auto``.
        host: the step that prepares the machine.
        no_kai: why there is no KAI; empty when there is.
        added: names of tenants that were added to the lab that runs. The node image is made without what they need.
        leave_alone: without the steps of those tenants; what the host does for them stays.
    """
    of_file = spec.model_copy(update={"tenants": tuple(t for t in spec.tenants if t.name not in added)})
    items = items_needed(of_file, supply)
    choices = tuple(supply.choose(items).values())
    fetches: tuple[Fetch, ...] = builds_needed(choices, supply)
    first = (host.id, *(fetch.id for fetch in fetches))
    in_nodes = [item for item in items if item.kind == "image" and item != base_image(spec)]
    own = own_node(spec, supply)
    node_image = NodeImage.of(spec, supply, in_nodes, first)
    steps = _lab_steps(spec, host, fetches, node_image, own, {})
    if leave_alone:
        steps = tuple(step for step in steps if step.id.partition(":")[2] not in added)
    all_facts = {
        "lab": spec.name,
        "provider": spec.cluster.provider,
        "kubernetes": spec.cluster.kubernetes,
        "nodes": str(spec.cluster.control_planes + spec.cluster.workers),
        "gpu_mode": spec.gpu.mode if has_gpus(spec) else "none",
        "gpus": said(spec) if has_gpus(spec) else "",
        "scheduler": spec.scheduler,
        "kai_version": spec.kai.version if spec.scheduler == "kai" else "",
        "no_kai": no_kai,
        "tenants": ", ".join(f"{tenant.name} ({tenant.mode})" for tenant in spec.tenants),
        "node_image": node_image.tag,
        **facts,
    }
    missing = tuple(choice for choice in choices if not choice.available)
    return Plan(spec, steps, choices, missing, (*notices, *no_kai_notice(spec, no_kai)), all_facts, host.effects())


def no_kai_notice(spec: LabSpec, no_kai: str) -> tuple[str, ...]:
    """The warning about a lab whose queues need KAI and that has none; ``no_kai`` says why, or is empty."""
    if not (no_kai and spec.queues):
        return ()
    return (f"NO KAI SCHEDULER in this lab: {no_kai}. Pods run on the default scheduler; queues are left out.",)


def running_steps(
    spec: LabSpec, supply: Supply, *, node_image: str, loaded: Collection[str] = ()
) -> tuple[Step[LabContext], ...]:
    """The steps of a lab that runs: nothing of its own is fetched or baked again.

    Args:
        spec: without any ``auto``.
        supply: where things come from.
        node_image: tag of the image its nodes are made of.
        loaded: names of tenants whose images are loaded into the nodes, which were baked without them.

    Raises:
        Unavailable: something that one of those tenants needs is not available.
    """
    images: dict[str, TenantImages] = {}
    fetches: dict[str, Fetch] = {}
    for tenant in spec.tenants:
        if tenant.name in loaded:
            choices = choices_for(spec, tenant, supply)
            needed = builds_needed(choices, supply)
            fetches.update((fetch.id, fetch) for fetch in needed)
            names = tuple(choice.item.name for choice in choices if choice.item.kind == "image")
            images[tenant.name] = TenantImages(tenant.name, names, tuple(fetch.id for fetch in needed))
    baked = NodeImage(spec, (), node_image)
    return _lab_steps(spec, HostReady(()), tuple(fetches.values()), baked, own_node(spec, supply), images)


def teardown_steps(spec: LabSpec) -> tuple[Step[LabContext], ...]:
    """All steps of a lab that is to go; neither the sources nor a node image are looked for."""
    return _lab_steps(spec, HostReady(()), (), NodeImage(spec, (), ""), True, {})


def choices_for(spec: LabSpec, tenant: TenantSpec, supply: Supply) -> tuple[Choice, ...]:
    """Where the things come from that the lab needs for a tenant and would not need without any tenant.

    Raises:
        Unavailable: something is not available.
    """
    alone = spec.model_copy(update={"tenants": (tenant,)})
    without = set(items_needed(spec.model_copy(update={"tenants": ()}), supply))
    choices = tuple(supply.choose([item for item in items_needed(alone, supply) if item not in without]).values())
    if missing := [choice for choice in choices if not choice.available]:
        things = "thing" if len(missing) == 1 else "things"
        raise Unavailable(
            f"{len(missing)} {things} that tenant {tenant.name} needs cannot be had; nothing was changed",
            evidence=[line for choice in missing for line in (str(choice.item), *(f"    {why}" for why in choice.why))],
            fix="; ".join(dict.fromkeys(choice.fix for choice in missing)),
        )
    return choices


def _lab_steps(
    spec: LabSpec,
    host: HostReady,
    fetches: Sequence[Fetch],
    node_image: NodeImage,
    own: bool,
    loaded: Mapping[str, TenantImages],
) -> tuple[Step[LabContext], ...]:
    with_kai = spec.scheduler == "kai"
    return (
        host,
        *fetches,
        node_image,
        KindCluster(spec, node_image.tag, own),
        PodNetwork(spec, own),
        *([RegistryMirrors(spec)] if spec.supply.mirrors else []),
        *(gpu_steps(spec) if has_gpus(spec) else ()),
        *kai.kai_steps(spec, with_kai),
        *queue_steps(spec, with_kai),
        *tenancy_steps(spec, with_kai, loaded),
    )
