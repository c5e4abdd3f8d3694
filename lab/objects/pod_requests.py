"""The resources that a pod requests: whole GPUs, shares of GPUs, cpu, memory and other countable resources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.kai.names import DEVICES_ANNOTATION, FRACTION_ANNOTATION, GPU_RESOURCE, MEMORY_ANNOTATION, MIG_PREFIX
from lab.objects.fields import Obj, amounts, annotations_of, number, parts, whole
from lab.text import count


@dataclass(frozen=True)
class PodRequests:
    """The requests of a pod, as schedulers count them."""

    gpus: int
    """Whole GPUs (nvidia.com/gpu)."""
    fraction: float | None
    """Share of each GPU by the annotation gpu-fraction; None where it is absent or not a number."""
    gpu_memory: int | None
    """MiB of each GPU by the annotation gpu-memory; None where it is absent or not an integer."""
    devices: int
    """Number of GPUs: whole ones, or those that it shares (gpu-fraction-num-devices)."""
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
        return self.fraction is not None or self.gpu_memory is not None

    @property
    def wants_gpu(self) -> bool:
        return self.gpus > 0 or self.shares_gpu or bool(self.mig)

    @property
    def gpu_total(self) -> float:
        """GPUs as queues count them, without gpu-memory, whose share depends on the node's GPUs."""
        return self.gpus + (self.fraction or 0.0) * self.devices

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
        words += [f"{number} {name}" for name, number in self.mig.items()]
        if self.cpu:
            words.append(f"{self.cpu:g}m cpu")
        if self.memory:
            words.append(f"{self.memory / 2**20:g} MiB memory")
        words += [f"{amount:g} {name}" for name, amount in self.others.items()]
        return ", ".join(words) or "nothing"

    @classmethod
    def of(cls, obj: Obj) -> PodRequests:
        """The requests of a Pod object or of a pod template, totalled as kube-scheduler does.

        The largest init container counts against the sum of the others; sidecars (init containers with restartPolicy
        Always) count with the others.
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
    sidecars: dict[str, float] = {}
    peak: dict[str, float] = {}
    for container in spec.get("initContainers") or []:
        running = _sum(sidecars, _requests(container))
        peak = _max(peak, running)
        if container.get("restartPolicy") == "Always":
            sidecars = running
    containers = _sum(sidecars, *map(_requests, spec.get("containers") or []))
    return _sum(_max(containers, peak), amounts(spec.get("overhead")))


def _requests(container: Obj) -> dict[str, float]:
    """Requests of a container; the API server copies what only the limits name, a template may lack it."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _sum(*resources: Mapping[str, float]) -> dict[str, float]:
    return {name: sum(row.get(name, 0.0) for row in resources) for row in resources for name in row}


def _max(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in one.keys() | other.keys()}
