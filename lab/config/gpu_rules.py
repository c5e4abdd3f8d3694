"""How the values of the section ``gpu`` must go together, with each other and with the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from lab.config.gpu import GpuPool
from lab.config.gpu_models import gpu_models
from lab.config.rules import BrokenRule, Loc
from lab.config.sections import LabFields
from lab.text import count, perhaps

_MODE: Loc = ("gpu", "mode")
_WORKERS: Loc = ("cluster", "workers")
_SIMULATED_ONLY = {"per_node": "perNode", "model": "model", "memory": "memoryMiB"}


def broken(spec: LabFields) -> Iterator[BrokenRule]:
    """All rules that the section breaks."""
    yield from _pools(spec)
    yield from _models(spec)
    yield from _devices(spec)
    for index, pool in enumerate(spec.gpu.pools):
        yield from _labels(index, pool)


def _pools(spec: LabFields) -> Iterator[BrokenRule]:
    pools = spec.gpu.pools
    if not pools:
        return
    if spec.cluster.provider == "existing":
        what = "pools are made of workers that the lab creates, and provider 'existing' creates none"
        yield BrokenRule(("gpu", "pools"), what, (("cluster", "provider"),))
        return
    names = [pool.name for pool in pools]
    for index, name in enumerate(names):
        if (first := names.index(name)) < index:
            yield BrokenRule(("gpu", "pools", index, "name"), f"'{name}' is taken already, by gpu.pools.{first}")
    total, workers = sum(pool.workers for pool in pools), spec.cluster.workers
    if total > workers:
        what = f"the pools have {count(total, 'worker')} together, but cluster.workers is {workers}"
        yield BrokenRule(("gpu", "pools"), what, (_WORKERS,))


def _models(spec: LabFields) -> Iterator[BrokenRule]:
    gpu = spec.gpu
    if gpu.mode not in ("auto", "simulated"):
        return
    unknown: set[str] = set()
    for index, pool in enumerate(spec.gpu_pools):
        if pool.per_node == 0 or pool.memory or pool.model in unknown:
            continue
        unknown.add(pool.model)
        own = bool(gpu.pools) and gpu.pools[index].model is not None
        at: Loc = ("gpu", "pools", index) if own else ("gpu",)
        known = [word for model in gpu_models() for word in (model.short, model.name)]
        near = perhaps(pool.model, known) or f"; known are: {', '.join(model.short for model in gpu_models())}"
        what = f"'{pool.model}' is not in the table of GPU models, so memoryMiB must be given too{near}"
        yield BrokenRule((*at, "model"), what, (_MODE, (*at, "memoryMiB")))


def _devices(spec: LabFields) -> Iterator[BrokenRule]:
    gpu = spec.gpu
    if gpu.mode not in ("auto", "nvidia"):
        return
    first: dict[int | str, Loc] = {}
    shared: set[Loc] = set()
    for index, pool in enumerate(spec.gpu_pools):
        own = bool(gpu.pools) and gpu.pools[index].devices is not None
        at: Loc = ("gpu", "pools", index, "devices") if own else ("gpu", "devices")
        if not isinstance(pool.devices, tuple) or at in shared:
            continue
        if pool.nodes > 1 or (not own and len(gpu.pools) > 1):
            shared.add(at)
            what = "names GPUs for more than one worker, and no two may have the same; give each worker a pool"
            yield BrokenRule(at, f"{what} of its own, or say how many GPUs each gets", (_WORKERS, _MODE))
            continue
        for device in pool.devices:
            if device in first:
                yield BrokenRule(at, f"GPU {device} is given away already, by {_path(first[device])}", (first[device],))
            first.setdefault(device, at)


def _labels(index: int, pool: GpuPool) -> Iterator[BrokenRule]:
    for key in pool.labels:
        prefix = key.partition("/")[0] if "/" in key else ""
        at: Loc = ("gpu", "pools", index, "labels", key)
        if key == "kailab" or prefix in ("kailab", "nvidia.com"):
            yield BrokenRule(at, "is a label that the lab itself sets")
        elif _refused_by_kubelets(prefix):
            yield BrokenRule(at, f"kubelets do not start with a label of their own in {prefix}")


def _refused_by_kubelets(prefix: str) -> bool:
    """Kubelets take labels of Kubernetes' own domains only from two of them (kubelet, ``--node-labels``)."""
    domains = prefix.split(".")
    own = domains[-2:] in (["kubernetes", "io"], ["k8s", "io"])
    return own and domains[-3:] not in (["kubelet", "kubernetes", "io"], ["node", "kubernetes", "io"])


def doubtful(spec: LabFields) -> Iterator[str]:
    """What is allowed but probably not meant."""
    gpu = spec.gpu
    if gpu.mode == "none":
        if gpu.pools:
            yield f"gpu.pools: have no effect, as gpu.mode is 'none' ({len(gpu.pools)} given)"
        return
    left = spec.cluster.workers - sum(pool.workers for pool in gpu.pools)
    if gpu.pools and left > 0:
        yield f"gpu.pools: {count(left, 'worker')} of {spec.cluster.workers} in no pool: without GPUs"
    sections = [("gpu", gpu), *((f"gpu.pools.{pool.name}", pool) for pool in gpu.pools)]
    for path, section in sections:
        given = section.model_fields_set
        if gpu.mode == "nvidia":
            for key in (alias for name, alias in _SIMULATED_ONLY.items() if name in given):
                yield f"{path}.{key}: has no effect, as gpu.mode is 'nvidia' (devices says which GPUs a node gets)"
        if gpu.mode == "simulated" and "devices" in given:
            yield f"{path}.devices: has no effect, as gpu.mode is 'simulated' (perNode says how many GPUs)"


def _path(loc: Loc) -> str:
    return ".".join(str(word) for word in loc)
