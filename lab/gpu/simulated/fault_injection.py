"""Lets a simulated GPU fail, and heals it: in the node's nvml.conf, and until the kubelet's word follows.

Whatever runs on a failed GPU goes on; the kubelet only gives it to nobody else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab.errors import LabError, SpecError, WaitTimeout
from lab.gpu.device_plugin import NAMESPACE, SELECTOR, Offer, offer_of, short_of
from lab.gpu.pools import short_name
from lab.gpu.simulated.devices import SimulatedGpu, gpus_of
from lab.gpu.simulated.health import APPLICATION_XIDS, WELL, Failures, Health, failures_on, with_failures
from lab.gpu.simulated.node_files import NVML_CONFIG, nvml_config
from lab.gpu.simulated.nodes import gpu_nodes
from lab.kai.names import GPU_PRESENT_LABEL
from lab.objects.views import NodeView, PodView
from lab.session.context import LabContext
from lab.text import perhaps

_SECONDS = 120.0
_TRIES = 4
_NOTICE_SECONDS = 20.0
# Longer than a kubelet takes to tell of a change (nodeStatusUpdateFrequency in kind/cluster.yaml).
_STATUS_SECONDS = 3.0


@dataclass(frozen=True)
class GpuRef:
    """A GPU of the lab: name of its node, and its index there."""

    node: str
    index: int


def every_gpu(ctx: LabContext) -> tuple[GpuRef, ...]:
    """All GPUs of the lab.

    Raises:
        SpecError: they are not simulated.
    """
    if ctx.spec.gpu.mode != "simulated":
        raise SpecError(
            f"GPUs of this lab are not simulated (gpu.mode '{ctx.spec.gpu.mode}'): they cannot be made to fail",
            fix="use a lab with gpu.mode 'simulated'",
        )
    return tuple(GpuRef(node.name, gpu.index) for node in gpu_nodes(ctx) for gpu in _gpus(ctx, node.name))


def find(ctx: LabContext, text: str) -> GpuRef:
    """The GPU that ``NODE/INDEX`` means; the node by its full name or the short one (``worker2/0``).

    Raises:
        SpecError: there is no such GPU, or the lab's GPUs are not simulated.
    """
    there = {_named(ctx, gpu): gpu for gpu in every_gpu(ctx)}
    chosen = next((gpu for name, gpu in there.items() if text in (name, f"{gpu.node}/{gpu.index}")), None)
    if chosen is None:
        raise SpecError(f"there is no GPU '{text}'{perhaps(text, list(there))}", fix=f"one of: {', '.join(there)}")
    return chosen


def fail(ctx: LabContext, gpu: GpuRef, health: Health) -> None:
    """Let a GPU fail, and wait until its node offers it no more.

    An XID error of an application changes nothing else: the device plugin keeps the GPU healthy.

    Raises:
        LabError: the GPU has failed already, or the device plugin does not run on its node.
        WaitTimeout: the device plugin took no notice.
    """
    before = failures_on(ctx, gpu.node)
    if before.get(gpu.index, WELL).failed:
        raise LabError(
            f"{_named(ctx, gpu)} has failed already: {before[gpu.index]}", fix=f"lab gpu heal {_named(ctx, gpu)}"
        )
    if not health.failed:
        _write(ctx, gpu.node, {**before, gpu.index: health})
        return
    _need_plugin(ctx, gpu.node)
    offered = _offered(ctx, gpu.node)
    ctx.progress(f"waiting until {short_name(ctx.spec.name, gpu.node)} offers a GPU less")
    after = Offer(max(offered - 1, 0), lost=health.lost)
    _fail_noticed(ctx, gpu.node, before, {**before, gpu.index: health}, after)


def heal(ctx: LabContext, gpus: Iterable[GpuRef]) -> tuple[GpuRef, ...]:
    """Heal GPUs, and wait until their nodes offer them again; returns those that were not well.

    The device plugin never takes back that a GPU is unhealthy (k8s-device-plugin v0.18.0, internal/plugin/server.go),
    so it is started again on these nodes; pods keep their GPUs. GPUs of the node that stay failed are offered while
    it starts, as the new plugin has not seen their errors; they fail anew then.

    Raises:
        ApiFailed: the server refused.
        WaitTimeout: a node does not offer its GPUs again.
    """
    asked: dict[str, set[int]] = {}
    for gpu in gpus:
        asked.setdefault(gpu.node, set()).add(gpu.index)
    healed = []
    for node, indices in asked.items():
        before = failures_on(ctx, node)
        mended = sorted(indices & before.keys())
        if mended:
            _heal_node(ctx, node, before, {index: sick for index, sick in before.items() if index not in indices})
        healed += [GpuRef(node, index) for index in mended]
    return tuple(healed)


def _heal_node(ctx: LabContext, node: str, before: Failures, rest: Failures) -> None:
    if not any(sick.failed for index, sick in before.items() if index not in rest):
        _write(ctx, node, rest)
        return
    _write(ctx, node, {})
    total = len(_gpus(ctx, node))
    # All GPUs offered may be the kubelet's word of before; and a starting plugin does not hear of what fails at once.
    hold = _STATUS_SECONDS if rest or _offered(ctx, node) >= total else 0.0
    ctx.progress(f"starting the device plugin of {short_name(ctx.spec.name, node)} again")
    cluster = ctx.cluster()
    old = {pod.name for pod in _plugin_pods(ctx) if pod.node == node}
    for name in old:
        cluster.delete("Pod", name, NAMESPACE, wait=_SECONDS)
    cluster.wait(
        "Pod",
        lambda pods: any(pod.node == node and pod.ready and pod.name not in old for pod in map(PodView.of, pods)),
        namespace=NAMESPACE,
        labels=SELECTOR,
        timeout=_SECONDS,
        what=f"the device plugin runs on {node} again",
    )
    _wait(ctx, node, Offer(total), hold=hold)
    if rest:
        after = offer_of(total, rest.values())
        _fail_noticed(ctx, node, {}, rest, replace(after, gpus=total - after.failed, failed=0))


def _fail_noticed(ctx: LabContext, node: str, before: Failures, after: Failures, offer: Offer) -> None:
    """Write failures and wait for what the node then offers.

    An XID error is an event, and nobody hears it twice: a device plugin that was still starting missed it. So it
    happens again, after a while without it that is longer than the plugin's library takes to look.
    """
    for left in reversed(range(_TRIES)):
        _write(ctx, node, after)
        try:
            _wait(ctx, node, offer, timeout=_SECONDS if left == 0 else _NOTICE_SECONDS)
        except WaitTimeout:
            if left == 0:
                raise
            _write(ctx, node, before, "sleep 1")
        else:
            return


def _wait(ctx: LabContext, node: str, offer: Offer, *, timeout: float = _SECONDS, hold: float = 0.0) -> None:
    ctx.cluster().wait(
        "Node",
        lambda nodes: not short_of({node: offer}, nodes),
        labels=f"{GPU_PRESENT_LABEL}=true",
        timeout=timeout,
        hold=hold,
        what=f"{node} offers {offer} GPUs",
    )


def _offered(ctx: LabContext, node: str) -> int:
    seen = ctx.cluster().get("Node", node)
    return NodeView.of(seen).gpus if seen else 0


def _plugin_pods(ctx: LabContext) -> list[PodView]:
    return [PodView.of(pod) for pod in ctx.cluster().list("Pod", NAMESPACE, labels=SELECTOR)]


def _need_plugin(ctx: LabContext, node: str) -> None:
    pods = _plugin_pods(ctx)
    if not any(pod.node == node and pod.ready and not pod.deleting for pod in pods):
        raise LabError(
            f"the device plugin does not run on {node}, so nobody would notice",
            evidence=[f"{pod.name} on {pod.node}: {pod.phase}" for pod in pods],
            fix="lab up",
        )


def _write(ctx: LabContext, node: str, failures: Failures, then: str = "true") -> None:
    """Write the node's nvml.conf in place: pods have this very file mounted."""
    text = nvml_config(node, with_failures(_gpus(ctx, node), failures))
    ctx.engine.exec(node, ["sh", "-c", f"cat >{NVML_CONFIG} && {then}"], stdin=text, timeout=30)


def _gpus(ctx: LabContext, node: str) -> tuple[SimulatedGpu, ...]:
    return gpus_of(ctx.spec.name, node, ctx.spec.gpu)


def _named(ctx: LabContext, gpu: GpuRef) -> str:
    return f"{short_name(ctx.spec.name, gpu.node)}/{gpu.index}"


def ignored(health: Health) -> str:
    """Why the device plugin takes no notice of a state; empty when it does."""
    if health.failed or health.xid not in APPLICATION_XIDS:
        return ""
    return f"XID {health.xid} is an error of an application: the device plugin keeps the GPU healthy"
