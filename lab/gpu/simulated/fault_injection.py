"""Makes a simulated GPU fail, and heals it: writes the node's nvml.conf and waits until the kubelet's offer follows.

Pods on a failed GPU keep running; the kubelet only stops giving it to others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab.errors import LabError, SpecError, WaitTimeout
from lab.gpu.device_plugin import NAMESPACE, SELECTOR, Offer, plugin_pods, require_plugins, wait_for_offers
from lab.gpu.nodes import gpu_node_names
from lab.gpu.pools import short_name
from lab.gpu.simulated.devices import SimulatedGpu, gpus_of
from lab.gpu.simulated.health import APPLICATION_XIDS, HEALTHY, Failures, Health, failures_on, with_failures
from lab.gpu.simulated.node_files import NVML_CONFIG, nvml_config
from lab.objects.views import NodeView, PodView
from lab.session.context import LabContext
from lab.text import perhaps

_SECONDS = 120.0
_TRIES = 4
_NOTICE_SECONDS = 20.0
# Longer than a kubelet takes to report a change (nodeStatusUpdateFrequency in kind/cluster.yaml).
_STATUS_SECONDS = 3.0


@dataclass(frozen=True)
class GpuRef:
    """A GPU of the lab: name of its node, and its index there."""

    node: str
    index: int


def every_gpu(ctx: LabContext) -> tuple[GpuRef, ...]:
    """Return all GPUs of the lab. Raises SpecError if they are not simulated."""
    if ctx.spec.gpu.mode != "simulated" or not ctx.spec.cluster.own:
        why = f"they are not simulated (gpu.mode '{ctx.spec.gpu.mode}')"
        if ctx.spec.gpu.mode == "simulated":
            why = "on an existing cluster they are a number of the node, without NVML"
        raise SpecError(
            f"GPUs of lab {ctx.spec.name} cannot be made to fail: {why}",
            fix="use a lab with gpu.mode 'simulated' and provider 'kind'",
        )
    return tuple(GpuRef(node, gpu.index) for node in gpu_node_names(ctx) for gpu in _gpus(ctx, node))


def find(ctx: LabContext, text: str) -> GpuRef:
    """Return the GPU that ``NODE/INDEX`` names; the node by its full name or the short one (``worker2/0``).

    Raises SpecError if no such GPU exists, or if the lab's GPUs are not simulated.
    """
    known = {_name(ctx, gpu): gpu for gpu in every_gpu(ctx)}
    chosen = next((gpu for name, gpu in known.items() if text in (name, f"{gpu.node}/{gpu.index}")), None)
    if chosen is None:
        raise SpecError(
            f"GPU '{text}' does not exist{perhaps(text, list(known))}", fix=f"use one of {', '.join(known)}"
        )
    return chosen


def fail(ctx: LabContext, gpu: GpuRef, health: Health) -> None:
    """Make a GPU fail, and wait until its node no longer offers it.

    An XID error of an application changes nothing else: the device plugin keeps the GPU healthy. Raises LabError if
    the GPU has failed before or no device plugin runs on its node, and WaitTimeout if the plugin misses the failure.
    """
    before = failures_on(ctx, gpu.node)
    name = _name(ctx, gpu)
    if before.get(gpu.index, HEALTHY).failed:
        raise LabError(f"GPU {name} has already failed: {before[gpu.index]}", fix=f"kailab gpu heal {name}")
    after = {**before, gpu.index: health}
    if not health.failed:
        _write(ctx, gpu.node, after)
        return
    require_plugins(ctx.cluster(), [gpu.node], LabError)
    ctx.progress(f"waiting until {short_name(ctx.spec.name, gpu.node)} offers one GPU less")
    offer = Offer(max(_offered(ctx, gpu.node) - 1, 0), lost=health.lost)
    _fail_until_noticed(ctx, gpu.node, before, after, offer)


def heal(ctx: LabContext, gpus: Iterable[GpuRef]) -> tuple[GpuRef, ...]:
    """Heal GPUs, and wait until their nodes offer them again; returns those that were not healthy.

    The device plugin never marks a GPU healthy again (k8s-device-plugin v0.18.0, internal/plugin/server.go), so these
    nodes get a new one; pods keep their GPUs. GPUs of the node that stay failed are offered until they fail again for
    the new plugin. Raises ApiFailed, and WaitTimeout if a node does not offer its GPUs again.
    """
    chosen = dict.fromkeys(gpus)
    healed: list[GpuRef] = []
    for node in dict.fromkeys(gpu.node for gpu in chosen):
        before = failures_on(ctx, node)
        found = [ref for index in sorted(before) if (ref := GpuRef(node, index)) in chosen]
        if found:
            rest = {index: health for index, health in before.items() if GpuRef(node, index) not in chosen}
            _heal_node(ctx, node, before, rest)
        healed += found
    return tuple(healed)


def ignored(health: Health) -> str:
    """Return why the device plugin ignores a state; empty if it does not."""
    if health.failed or health.xid not in APPLICATION_XIDS:
        return ""
    return f"XID {health.xid} is an error of an application: the device plugin keeps the GPU healthy"


def _heal_node(ctx: LabContext, node: str, before: Failures, rest: Failures) -> None:
    if not any(health.failed for index, health in before.items() if index not in rest):
        _write(ctx, node, rest)
        return
    _write(ctx, node, {})
    total = len(_gpus(ctx, node))
    # If all GPUs are offered, the status may be old. And a starting plugin does not notice new failures at once.
    hold = _STATUS_SECONDS if rest or _offered(ctx, node) >= total else 0.0
    ctx.progress(f"restarting the device plugin of {short_name(ctx.spec.name, node)}")
    cluster = ctx.cluster()
    old = {pod.name for pod in plugin_pods(cluster) if pod.node == node}
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
    wait_for_offers(cluster, {node: Offer(total)}, timeout=_SECONDS, hold=hold)
    if rest:
        after = Offer.of(total, rest.values())
        _fail_until_noticed(ctx, node, {}, rest, replace(after, gpus=total - after.failed, failed=0))


def _fail_until_noticed(ctx: LabContext, node: str, before: Failures, after: Failures, offer: Offer) -> None:
    """Write failures and wait for the node's new offer.

    An XID error is an event, and a plugin that is still starting misses it. So the failure is cleared for longer than
    the plugin's library takes to look, and repeated.
    """
    for left in reversed(range(_TRIES)):
        _write(ctx, node, after)
        try:
            wait_for_offers(ctx.cluster(), {node: offer}, timeout=_SECONDS if left == 0 else _NOTICE_SECONDS)
        except WaitTimeout:
            if left == 0:
                raise
            _write(ctx, node, before, "sleep 1")
        else:
            return


def _offered(ctx: LabContext, node: str) -> int:
    seen = ctx.cluster().get("Node", node)
    return NodeView.of(seen).gpus if seen else 0


def _write(ctx: LabContext, node: str, failures: Failures, then: str = "true") -> None:
    """Write the node's nvml.conf in place: pods have this very file mounted."""
    text = nvml_config(node, with_failures(_gpus(ctx, node), failures))
    ctx.engine.exec(node, ["sh", "-c", f"cat >{NVML_CONFIG} && {then}"], stdin=text, timeout=30)


def _gpus(ctx: LabContext, node: str) -> tuple[SimulatedGpu, ...]:
    return gpus_of(ctx.spec.name, node, ctx.spec.gpu)


def _name(ctx: LabContext, gpu: GpuRef) -> str:
    return f"{short_name(ctx.spec.name, gpu.node)}/{gpu.index}"
