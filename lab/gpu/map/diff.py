"""What changed between two maps of GPUs: a pod waits, is bound, runs, is gone; a GPU breaks or comes back. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lab.gpu.map.model import Gpu, GpuMap, GpuState, Holder
from lab.gpu.map.text import state_words


@dataclass(frozen=True)
class GpuChange:
    """One change. ``what`` is waits, bound, starts, runs, other, gone, reserved, released, gpu or node."""

    what: str
    about: str
    """``namespace/name`` of the pod, or the GPU or node."""
    text: str
    """The change in one sentence."""
    tenant: str = ""
    queue: str = ""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs it is about, where they are known."""

    def as_json(self) -> dict[str, Any]:
        data = asdict(self)
        return {"change": data.pop("what"), **data}


@dataclass(frozen=True)
class _Seen:
    """A pod as one map shows it."""

    what: str
    title: str
    text: str
    tenant: str
    queue: str
    gpus: tuple[str, ...] = ()


def changes(before: GpuMap, after: GpuMap) -> tuple[GpuChange, ...]:
    """What changed, GPUs first: a pod runs because its GPU was reserved."""
    return (*_nodes(before, after), *_gpus(before, after), *_pods(before, after))


def _pods(before: GpuMap, after: GpuMap) -> Iterator[GpuChange]:
    old, new = _seen(before), _seen(after)
    for uid, pod in new.items():
        if pod != old.get(uid):
            yield GpuChange(pod.what, pod.title, f"pod {pod.title} {pod.text}", pod.tenant, pod.queue, pod.gpus)
    for uid, pod in old.items():
        if uid not in new:
            text = f"pod {pod.title} is gone"
            yield GpuChange("gone", pod.title, text, pod.tenant, pod.queue, pod.gpus)


def _seen(gpus: GpuMap) -> dict[str, _Seen]:
    found = {
        pod.uid: _Seen(
            "waits", pod.title, f"waits for {pod.asked}: {pod.why or 'not decided yet'}", pod.tenant, pod.queue
        )
        for pod in gpus.waiting
    }
    on: dict[str, list[tuple[Holder, Gpu | None]]] = {}
    for holder, gpu in gpus.holders:
        on.setdefault(holder.uid, []).append((holder, gpu))
    for uid, places in on.items():
        pod = places[0][0]
        known = [gpu for _, gpu in places if gpu is not None]
        what = {"Running": "runs", "Starting": "starts" if known else "bound"}.get(pod.phase, "other")
        verb = {"runs": "runs", "starts": "starts", "bound": "is bound"}.get(what, f"is {pod.phase}")
        where = ", ".join(gpu.title for gpu in known) or pod.node
        uuids = tuple(gpu.uuid for gpu in known if gpu.uuid)
        text = f"{verb} {'to' if what == 'bound' else 'on'} {where} with {pod.asked}"
        found[uid] = _Seen(what, pod.title, text, pod.tenant, pod.queue, uuids)
    return found


def _gpus(before: GpuMap, after: GpuMap) -> Iterator[GpuChange]:
    old = {gpu.uuid: gpu for gpu in before.gpus if gpu.uuid}
    for gpu in after.gpus:
        was = old.get(gpu.uuid)
        if was is None:
            continue
        uuids = (gpu.uuid,)
        if gpu.reservations != was.reservations:
            what = "reserved" if gpu.reservations else "released"
            by = f"is reserved by {', '.join(gpu.reservations)}" if gpu.reservations else "is not reserved any more"
            yield GpuChange(what, gpu.title, f"{gpu.title} {by}", gpus=uuids)
        bad = (GpuState.UNHEALTHY, GpuState.OVER)
        if (gpu.state is not was.state and (gpu.state in bad or was.state in bad)) or gpu.trouble != was.trouble:
            yield GpuChange("gpu", gpu.title, f"{gpu.title} is {state_words(gpu)}", gpus=uuids)


def _nodes(before: GpuMap, after: GpuMap) -> Iterator[GpuChange]:
    old, new = ({node.name: node for node in gpus.nodes} for gpus in (before, after))
    for name, node in new.items():
        was = old.get(name)
        offers = f"offers {node.allocatable} of {max(node.capacity, len(node.gpus))} GPUs"
        if was is None:
            yield GpuChange("node", name, f"node {name} {offers}")
        elif (node.ready, node.cordoned) != (was.ready, was.cordoned):
            state = ", ".join(["Ready" if node.ready else "not Ready", *(["cordoned"] if node.cordoned else [])])
            yield GpuChange("node", name, f"node {name} is {state}")
        elif node.allocatable != was.allocatable:
            yield GpuChange("node", name, f"node {name} {offers}")
    for name in old.keys() - new.keys():
        yield GpuChange("node", name, f"node {name} has no GPUs any more")
