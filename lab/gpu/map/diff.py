"""Changes between two GPU maps: a pod waits, is bound, runs, is gone; a GPU breaks or comes back. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lab.gpu.map.model import Gpu, GpuMap, GpuState, Holder
from lab.gpu.map.text import state_text


@dataclass(frozen=True)
class GpuChange:
    """One change."""

    change: str
    """waits, bound, starts, runs, other, gone, reserved, released, gpu or node."""
    about: str
    """``namespace/name`` of the pod, or the GPU or node."""
    text: str
    """The change in one sentence."""
    tenant: str = ""
    queue: str = ""
    gpus: tuple[str, ...] = ()
    """UUIDs of its GPUs, where they are known."""


def changes(before: GpuMap, after: GpuMap) -> tuple[GpuChange, ...]:
    """Return what changed, GPUs first: a pod runs because its GPU was reserved."""
    return (*_nodes(before, after), *_gpus(before, after), *_pods(before, after))


def _pods(before: GpuMap, after: GpuMap) -> Iterator[GpuChange]:
    old, new = _pod_states(before), _pod_states(after)
    yield from (pod for uid, pod in new.items() if pod != old.get(uid))
    for uid, pod in old.items():
        if uid not in new:
            yield replace(pod, change="gone", text=f"pod {pod.about} is gone")


def _pod_states(gpus: GpuMap) -> dict[str, GpuChange]:
    """Uid of each pod → the change that led to its state."""
    found = {}
    for waiting in gpus.waiting:
        text = f"pod {waiting.title} waits for {waiting.asked}: {waiting.why or 'not decided yet'}"
        found[waiting.uid] = GpuChange("waits", waiting.title, text, waiting.tenant, waiting.queue)
    on: dict[str, list[tuple[Holder, Gpu | None]]] = {}
    for holder, gpu in gpus.holders:
        on.setdefault(holder.uid, []).append((holder, gpu))
    for uid, places in on.items():
        pod = places[0][0]
        known = [gpu for _, gpu in places if gpu is not None]
        change = {"Running": "runs", "Starting": "starts" if known else "bound"}.get(pod.phase, "other")
        verb = {"runs": "runs on", "starts": "starts on", "bound": "is bound to"}.get(change, f"is {pod.phase} on")
        where = ", ".join(gpu.title for gpu in known) or pod.node
        uuids = tuple(gpu.uuid for gpu in known if gpu.uuid)
        text = f"pod {pod.title} {verb} {where} with {pod.asked}"
        found[uid] = GpuChange(change, pod.title, text, pod.tenant, pod.queue, uuids)
    return found


def _gpus(before: GpuMap, after: GpuMap) -> Iterator[GpuChange]:
    old = {gpu.uuid: gpu for gpu in before.gpus if gpu.uuid}
    for gpu in after.gpus:
        was = old.get(gpu.uuid)
        if was is None:
            continue
        uuids = (gpu.uuid,)
        if gpu.reservations != was.reservations:
            change = "reserved" if gpu.reservations else "released"
            by = f"is reserved by {', '.join(gpu.reservations)}" if gpu.reservations else "is not reserved any more"
            yield GpuChange(change, gpu.title, f"{gpu.title} {by}", gpus=uuids)
        bad = (GpuState.UNHEALTHY, GpuState.OVER)
        if (gpu.state is not was.state and (gpu.state in bad or was.state in bad)) or gpu.trouble != was.trouble:
            yield GpuChange("gpu", gpu.title, f"{gpu.title} is {state_text(gpu)}", gpus=uuids)


def _nodes(before: GpuMap, after: GpuMap) -> Iterator[GpuChange]:
    old, new = ({node.name: node for node in gpus.nodes} for gpus in (before, after))
    for name, node in new.items():
        was = old.get(name)
        offers = f"offers {node.allocatable} of {max(node.capacity, len(node.gpus))} GPUs"
        if was is None:
            yield GpuChange("node", name, f"node {name} {offers}")
        elif (node.ready, node.cordoned) != (was.ready, was.cordoned):
            state = f"{'Ready' if node.ready else 'not Ready'}{', cordoned' if node.cordoned else ''}"
            yield GpuChange("node", name, f"node {name} is {state}")
        elif node.allocatable != was.allocatable:
            yield GpuChange("node", name, f"node {name} {offers}")
    for name in old.keys() - new.keys():
        yield GpuChange("node", name, f"node {name} has no GPUs any more")
