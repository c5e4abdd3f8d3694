"""Rules between the values of the section ``gpu``, and between them and the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.config.gpu_models import gpu_models, product_label
from lab.config.rules import BrokenRule, Loc, dotted, duplicates, gpus_are_shared, known_line
from lab.config.sections import LabFields
from lab.text import count, perhaps

_MODE: Loc = ("gpu", "mode")
_WORKERS: Loc = ("cluster", "workers")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_SIMULATED_ONLY = {"per_node": "perNode", "model": "model", "memory": "memoryMiB"}


def violations(spec: LabFields) -> Iterator[BrokenRule]:
    """Violated rules of the section."""
    yield from _pools(spec)
    if spec.gpu.mode in ("auto", "simulated"):
        yield from _models(spec)
    if spec.gpu.mode in ("auto", "nvidia"):
        yield from _devices(spec)
    yield from _labels(spec)


def _pools(spec: LabFields) -> Iterator[BrokenRule]:
    pools = spec.gpu.pools
    if not pools:
        return
    if not spec.cluster.own:
        what = "pools consist of workers that the lab creates, and provider 'existing' creates none"
        yield BrokenRule(("gpu", "pools"), what, (("cluster", "provider"),))
        return
    yield from duplicates(("gpu", "pools"), [pool.name for pool in pools])
    total, workers = sum(pool.workers for pool in pools), spec.cluster.workers
    if total > workers:
        what = f"the pools have {count(total, 'worker')} together, but cluster.workers is {workers}"
        yield BrokenRule(("gpu", "pools"), what, (_WORKERS,))


def _models(spec: LabFields) -> Iterator[BrokenRule]:
    unknown: set[str] = set()
    for index, pool in enumerate(spec.gpu_pools):
        if pool.per_node == 0 or pool.model in unknown:
            continue
        unknown.add(pool.model)
        own = bool(spec.gpu.pools) and spec.gpu.pools[index].model is not None
        at: Loc = ("gpu", "pools", index) if own else ("gpu",)
        if not re.fullmatch(_LABEL, label := product_label(pool.model)):
            what = f"Kubernetes rejects the node label nvidia.com/gpu.product={label!r} of '{pool.model}'"
            yield BrokenRule((*at, "model"), f"{what}; use a name as NVML reports it", (_MODE,))
        if pool.memory:
            continue
        known = [word for model in gpu_models() for word in (model.short, model.name)]
        near = perhaps(pool.model, known) or f"; known models: {', '.join(model.short for model in gpu_models())}"
        what = f"'{pool.model}' is not in the table of GPU models, so memoryMiB is required too{near}"
        yield BrokenRule((*at, "model"), what, (_MODE, (*at, "memoryMiB")))


def _devices(spec: LabFields) -> Iterator[BrokenRule]:
    pools = spec.gpu.pools
    first: dict[int | str, Loc] = {}
    shared: set[Loc] = set()
    for index, pool in enumerate(spec.gpu_pools):
        own = bool(pools) and pools[index].devices is not None
        at: Loc = ("gpu", "pools", index, "devices") if own else ("gpu", "devices")
        if not isinstance(pool.devices, tuple) or at in shared:
            continue
        if pool.nodes > 1 or (not own and len(pools) > 1):
            shared.add(at)
            what = "names GPUs for several workers, which cannot share them; give each worker its own pool"
            yield BrokenRule(at, f"{what}, or give a number of GPUs instead", (_WORKERS, _MODE))
            continue
        for device in pool.devices:
            if device in first:
                yield BrokenRule(at, f"GPU {device} is already assigned by {dotted(first[device])}", (first[device],))
            first.setdefault(device, at)


def _labels(spec: LabFields) -> Iterator[BrokenRule]:
    for index, pool in enumerate(spec.gpu.pools):
        for key in pool.labels:
            domain = key.partition("/")[0] if "/" in key else ""
            at: Loc = ("gpu", "pools", index, "labels", key)
            if key == "kailab" or domain in ("kailab", "nvidia.com"):
                yield BrokenRule(at, "is a label that the lab itself sets")
            elif _refused_by_kubelets(domain):
                yield BrokenRule(at, f"kubelets refuse to set labels in {domain}")


def _refused_by_kubelets(domain: str) -> bool:
    """Whether a domain is Kubernetes' own and not one of the two allowed ones (kubelet, ``--node-labels``)."""
    parts = domain.split(".")
    own = parts[-2:] in (["kubernetes", "io"], ["k8s", "io"])
    return own and parts[-3:] not in (["kubelet", "kubernetes", "io"], ["node", "kubernetes", "io"])


def warnings(spec: LabFields) -> Iterator[str]:
    """Warnings about values that are valid but probably unintended."""
    gpu = spec.gpu
    if not spec.cluster.own:
        simulated = gpu.mode == "simulated"
        of_nodes = {**({} if simulated else _SIMULATED_ONLY), "devices": "devices"}
        whose = "simulated" if simulated else "the cluster's"
        for key in (alias for name, alias in of_nodes.items() if name in gpu.model_fields_set):
            yield f"gpu.{key}: has no effect: the GPUs are {whose} (provider 'existing')"
        return
    if gpu.mode == "none":
        if gpu.pools:
            yield f"gpu.pools: have no effect, as gpu.mode is 'none' ({len(gpu.pools)} given)"
        return
    line = known_line(spec.kai.version)
    if gpus_are_shared(spec) and line is not None and line.reservation_class == "node":
        why = "reservation pods get the nodes' default runtime and find no GPU, so that no fraction starts"
        yield f"kai.version: with KAI {spec.kai.version}, {why}; 0.7.12 and newer name NVIDIA's runtime"
    left = spec.cluster.workers - sum(pool.workers for pool in gpu.pools)
    if gpu.pools and left > 0:
        yield f"gpu.pools: {count(left, 'worker')} of {spec.cluster.workers} in no pool: without GPUs"
    sections = [("gpu", gpu), *((f"gpu.pools.{pool.name}", pool) for pool in gpu.pools)]
    for path, section in sections:
        given = section.model_fields_set
        if gpu.mode == "nvidia":
            for key in (alias for name, alias in _SIMULATED_ONLY.items() if name in given):
                yield f"{path}.{key}: has no effect, as gpu.mode is 'nvidia' (use devices)"
        if gpu.mode == "simulated" and "devices" in given:
            yield f"{path}.devices: has no effect, as gpu.mode is 'simulated' (use perNode)"
