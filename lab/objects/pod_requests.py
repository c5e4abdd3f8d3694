"""What a pod asks of a node: GPUs whole or shared, cpu and memory, and other countable resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.kai.names import DEVICES_ANNOTATION, FRACTION_ANNOTATION, GPU_RESOURCE, MEMORY_ANNOTATION, MIG_PREFIX
from lab.objects.fields import Obj, annotations_of, number, parts, whole
from lab.objects.kai import amount
from lab.text import count


@dataclass(frozen=True)
class PodRequests:
    """The requests of a pod, as schedulers count them."""

    gpus: int
    """Whole GPUs (nvidia.com/gpu)."""
    fraction: float | None
    """Part of each GPU by the annotation gpu-fraction, as written; None where it is absent or no number."""
    gpu_memory: int | None
    """MiB of each GPU by the annotation gpu-memory, as written; None where it is absent or no whole number."""
    devices: int
    """How many GPUs it is on: the whole ones, or those it shares (gpu-fraction-num-devices); 0 without GPU."""
    mig: Mapping[str, int]
    """MIG resource → count."""
    cpu: float
    """Millicores."""
    memory: float
    """Bytes."""
    others: Mapping[str, float]
    """Every other resource → amount, such as ephemeral-storage or hugepages-2Mi."""

    @property
    def shares_gpu(self) -> bool:
        """Whether it asks for a part of a GPU in the way KAI understands."""
        return self.fraction is not None or self.gpu_memory is not None

    @property
    def wants_gpu(self) -> bool:
        """Whether it asks for a GPU in any way."""
        return self.gpus > 0 or self.shares_gpu or bool(self.mig)

    @property
    def gpu_total(self) -> float:
        """GPUs as queues count them, without gpu-memory, whose share depends on the node's GPUs."""
        shared = self.fraction * self.devices if self.fraction is not None else 0.0
        return self.gpus + shared

    @property
    def amounts(self) -> Mapping[str, float]:
        """Resource → amount, without shares of GPUs; cpu in millicores, memory in bytes."""
        return {"cpu": self.cpu, "memory": self.memory, GPU_RESOURCE: self.gpus, **self.others, **self.mig}

    def in_words(self) -> str:
        """Such as ``0.5 of 1 GPU, 100m cpu, 64 MiB memory``."""
        words = []
        if self.fraction is not None:
            words.append(f"{self.fraction:g} of {count(self.devices, 'GPU')}")
        elif self.gpu_memory is not None:
            words.append(f"{self.gpu_memory} MiB of {count(self.devices, 'GPU')}")
        if self.gpus:
            words.append(f"{count(self.gpus, 'whole GPU')}")
        words += [f"{count} {name}" for name, count in self.mig.items()]
        if self.cpu:
            words.append(f"{self.cpu:g}m cpu")
        if self.memory:
            words.append(f"{self.memory / 2**20:g} MiB memory")
        words += [f"{amount:g} {name}" for name, amount in self.others.items()]
        return ", ".join(words) or "nothing"

    @classmethod
    def of(cls, obj: Obj) -> PodRequests:
        """The needs of a Pod object, or of a pod template.

        Init containers count as the kube-scheduler counts them: the largest one against the sum of the
        others, and those that go on running (restartPolicy Always) with the others.
        """
        meta, spec, _ = parts(obj)
        annotations = annotations_of(meta)
        total = _total(spec)
        gpus = int(total.pop(GPU_RESOURCE, 0))
        mig = {name: int(total.pop(name)) for name in sorted(total) if name.startswith(MIG_PREFIX)}
        fraction = number(annotations.get(FRACTION_ANNOTATION))
        gpu_memory = whole(annotations.get(MEMORY_ANNOTATION))
        shares = fraction is not None or gpu_memory is not None
        return cls(
            gpus=gpus,
            fraction=fraction,
            gpu_memory=gpu_memory,
            devices=(whole(annotations.get(DEVICES_ANNOTATION)) or 1) if shares else gpus,
            mig=mig,
            cpu=round(total.pop("cpu", 0.0) * 1000, 3),
            memory=total.pop("memory", 0.0),
            others={name: amount for name, amount in sorted(total.items()) if amount},
        )


def _total(spec: Obj) -> dict[str, float]:
    running: dict[str, float] = {}
    for container in spec.get("containers") or []:
        _add(running, _requests(container))
    peak: dict[str, float] = {}
    sidecars: dict[str, float] = {}
    for container in spec.get("initContainers") or []:
        asks = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asks)
            asks = {}
        beside = dict(sidecars)
        _add(beside, asks)
        peak = {name: max(peak.get(name, 0.0), beside.get(name, 0.0)) for name in peak.keys() | beside.keys()}
    _add(running, sidecars)
    total = {name: max(running.get(name, 0.0), peak.get(name, 0.0)) for name in running.keys() | peak.keys()}
    _add(total, {name: amount(value) for name, value in (spec.get("overhead") or {}).items()})
    return total


def _requests(container: Mapping[str, Any]) -> dict[str, float]:
    """Requests of a container; the API server fills in what only the limits name, a template may not."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(value) for name, value in asked.items()}


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0.0) + value
