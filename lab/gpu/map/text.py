"""The GPU map as plain lines that need no context, for pipes, logs and artifacts."""

from __future__ import annotations

from collections.abc import Iterator

from lab.gpu.map.model import Gpu, GpuMap, GpuState, MapPod, NodeGpus
from lab.text import count


def gpu_lines(gpus: GpuMap) -> tuple[str, ...]:
    """Return one line for each node, GPU, pod and waiting pod, and the summary last."""
    return (*_lines(gpus), summary_line(gpus))


def summary_line(gpus: GpuMap) -> str:
    """Return the map in one line."""
    if not gpus.nodes:
        return f"no GPUs on {count(gpus.others, 'node')}; {count(len(gpus.waiting), 'pod')} waiting for one"
    states = ", ".join(f"{gpus.count(state)} {state.value}" for state in GpuState)
    return (
        f"{count(len(gpus.gpus), 'GPU')} on {count(len(gpus.nodes), 'node')}: {states};"
        f" largest free share {gpus.largest_free:g}; {count(len(gpus.waiting), 'pod')} waiting"
    )


def node_words(node: NodeGpus) -> list[str]:
    """Describe the state of a node and its GPUs, a few words each."""
    words = ["Ready" if node.ready else "not Ready"]
    words += ["cordoned"] if node.cordoned else []
    words += [f"dedicated to tenant {node.tenant}"] if node.tenant else []
    words += [f"{node.allocatable} of {max(node.capacity, len(node.gpus))} offered"]
    words += [node.model] if node.model else []
    words += [memory_text(node.memory)] if node.memory else []
    words += [f"{node.withheld} unidentified GPUs withheld"] if node.withheld else []
    return words


def state_text(gpu: Gpu) -> str:
    """Describe the state of a GPU: ``shared 75 %``, ``unhealthy (XID 79)``."""
    words = gpu.state.value
    if gpu.state in (GpuState.SHARED, GpuState.OVER):
        unknown = any(holder.share is None for holder in gpu.holders)
        words += f" {'≥ ' if unknown else ''}{gpu.used:.0%}".replace("%", " %")
    return f"{words} ({gpu.trouble})" if gpu.trouble else words


def memory_text(mib: int | None) -> str:
    """Return an amount of MiB in GiB where it is a whole number: ``40 GiB``, ``15360 MiB``."""
    if mib is None:
        return ""
    return f"{mib // 1024} GiB" if mib % 1024 == 0 else f"{mib} MiB"


def _lines(gpus: GpuMap) -> Iterator[str]:
    for note in gpus.notes:
        yield f"note: {note}"
    for node in gpus.nodes:
        yield f"node {node.name}: {', '.join(node_words(node))}"
        for gpu in node.gpus:
            yield _gpu(gpu)
            yield from (_pod(pod, f"{pod.asked} on {gpu.title}", pod.phase) for pod in gpu.holders)
        yield from (_pod(pod, f"{pod.asked} on an unknown GPU of {node.name}", pod.phase) for pod in node.unplaced)
    for pod in gpus.waiting:
        yield _pod(pod, f"waits for {pod.asked}") + (f": {pod.why}" if pod.why else "")


def _gpu(gpu: Gpu) -> str:
    number = "?" if gpu.index is None else gpu.index
    by = ", ".join(map(_reserver, gpu.reservations, gpu.reserved_by))
    reserved = f", reserved by {by}" if by else ""
    group = f", GPU group {gpu.group}" if gpu.group else ""
    return f"gpu {gpu.node}/{number} {gpu.uuid or 'UUID unknown'}: {state_text(gpu)}{reserved}{group}"


def _reserver(on_host: str, owners: str) -> str:
    """A reservation pod on the host, with its name inside the tenant whose own KAI created it."""
    return on_host if on_host.endswith(f"/{owners}") else f"{on_host} ({owners})"


def _pod(pod: MapPod, what: str, *more: str) -> str:
    owners = [f"{word} {name}" for word, name in (("tenant", pod.tenant), ("queue", pod.queue)) if name]
    return ", ".join([f"pod {pod.title}: {what}", *more, *owners])
