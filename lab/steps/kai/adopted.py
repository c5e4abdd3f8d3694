"""Step ``kai`` for ``kai.manage: adopt``: the KAI of an existing cluster runs, and nothing of it is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from lab.config import KaiSpec, LabSpec
from lab.engine.step import Observed
from lab.errors import LabError
from lab.gpu.pools import RUNTIME_CLASS
from lab.kai.names import KAI_SCHEDULER, QUEUE_LABEL
from lab.kube import Cluster
from lab.kube.ownership import helm_release, owner_of
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.snapshot.cluster_snapshot import ClusterSnapshot, take
from lab.snapshot.installed_software import gpu_sharing
from lab.snapshot.kai_installation import ADMISSION, BINDER, GROUPER, SCHEDULER, KaiInstallation, installation

_KINDS = ("Deployment", "Pod")
_NEEDED = (SCHEDULER, BINDER, GROUPER)
_CLASS_OPTIONS = ("gpu-fraction-runtime-class-name", "gpu-pod-runtime-class-name")
"""Of KAI's admission, the newer name first (cmd/admission/app/options.go, 0.16.8); both default to ``nvidia``."""


def find_kai(cluster: Cluster) -> KaiInstallation | None:
    """The KAI that a cluster has. Raises ApiFailed."""
    return installation(take(cluster, kinds=_KINDS))


class AdoptedSettings(NamedTuple):
    """What a lab has to know about the settings of somebody else's KAI."""

    kai: KaiSpec
    """The lab file's section with the GPU sharing of that KAI."""
    serves: str = ""
    """Labels that a namespace needs for that KAI to serve it: ``key=value,…``; empty: none."""
    lacking: tuple[str, ...] = ()
    """Settings that the lab file needs and that KAI does not have, with the command for its owner; the lab changes
    nothing."""


def adopted_settings(cluster: Cluster, asked: KaiSpec) -> AdoptedSettings:
    """Compare the settings of the cluster's KAI with the lab file's section. Raises ApiFailed."""
    snapshot = take(cluster, kinds=(*_KINDS, "Config", "RuntimeClass"))
    found = installation(snapshot)
    if found is None:
        return AdoptedSettings(asked)
    sharing = gpu_sharing(found, next(iter(snapshot.of("Config")), None))
    section = asked if sharing is None else asked.model_copy(update={"gpu_sharing": sharing})
    serves = ",".join(f"{key}={value}" for key, value in found.namespace_selector.items())
    lacking = tuple(_lacking(snapshot, found, sharing=asked.gpu_sharing, off=asked.gpu_sharing and sharing is False))
    return AdoptedSettings(section, serves, lacking)


def _lacking(snapshot: ClusterSnapshot, found: KaiInstallation, *, sharing: bool, off: bool) -> Iterator[str]:
    where = f"the KAI in namespace {found.namespace}"
    if off:
        change = _change(snapshot, found, f"{found.line.helm.gpu_sharing}=true")
        yield f"{where} refuses pods with a part of a GPU; kai.gpuSharing is true. {change}"
    elif sharing and (name := _missing_class(snapshot, found)):
        clearable = found.line.workload_class_clearable
        change = (
            _change(snapshot, found, f"{found.line.helm.workload_class}=") if clearable else "Its owner can create it"
        )
        yield (
            f"{where} gives pods with a part of a GPU the RuntimeClass {name}, which the cluster lacks:"
            f" they are refused. {change}"
        )
    if selector := found.namespace_selector:
        labels = " ".join(f"{key}={value}" for key, value in selector.items())
        command = f"kubectl label namespace NAME {labels}"
        yield f"{where} serves labelled namespaces only: label those of host-kai tenants and of your pods: {command}"
    for what, value, ours in (
        ("schedules pods with schedulerName", found.scheduler_name, KAI_SCHEDULER),
        ("reads the queue of a pod from label", found.queue_key, QUEUE_LABEL),
    ):
        if value != ours:
            yield f"{where} {what} {value}, and the lab's pods have {ours}: its owner has to set it back"


def _missing_class(snapshot: ClusterSnapshot, found: KaiInstallation) -> str:
    """The RuntimeClass that KAI sets and the cluster lacks; empty if KAI sets none, or the cluster has it."""
    admission = found.components.get(ADMISSION)
    if admission is None or not found.line.helm.workload_class:
        return ""
    set_ = (admission.option(option) for option in _CLASS_OPTIONS)
    name = next((value for value in set_ if value is not None), RUNTIME_CLASS)
    # KAI's operator passes an empty name as an argument of its own, which reads as a flag without value
    return "" if name in ("", "true") or snapshot.get("RuntimeClass", name) is not None else name


def _change(snapshot: ClusterSnapshot, found: KaiInstallation, value: str) -> str:
    """The command that sets a value of the chart."""
    named = (snapshot.get("Deployment", one.deployment, one.namespace) for one in found.components.values())
    releases = (helm_release(deployment) for deployment in named if deployment is not None)
    namespace, release = next((one for one in releases if all(one)), ("", ""))
    if not release:
        return f"Its owner can set {value}"
    chart = f"{found.line.chart} --version v{found.version}"
    return f"Its owner can run: helm upgrade {release} {chart} -n {namespace} --reuse-values --set {value}"


@dataclass(frozen=True)
class AdoptedKai(LabStep):
    """The KAI that somebody else installed."""

    spec: LabSpec
    needs: tuple[str, ...] = ("network",)
    id: str = "kai"

    @property
    def title(self) -> str:
        return f"KAI Scheduler {self.spec.kai.version}, adopted"

    def wanted(self) -> object:
        return self.spec.kai.version

    def observe(self, ctx: LabContext) -> Observed:
        cluster = ctx.cluster()
        if problem := self._problem(found := find_kai(cluster)):
            return Observed.drifted(problem)
        space = cluster.get("Namespace", found.namespace) if found else None
        return Observed.ready(f"namespace {found.namespace} {owner_of(space)}" if found and space else "")

    def apply(self, ctx: LabContext) -> None:
        """Wait a while for its components; raise LabError: it is its owner's to repair."""
        cluster = ctx.cluster()
        if problem := cluster.poll(lambda: self._problem(find_kai(cluster)), until=lambda found: not found, timeout=60):
            raise LabError(
                f"the cluster's KAI cannot be used: {problem}",
                fix="ask who installed it to restore it, or install one with the lab: set kai.manage to install",
            )

    def _problem(self, found: KaiInstallation | None) -> str:
        """Why the KAI cannot be used; empty if it can."""
        if found is None:
            return "it is gone"
        if found.version != self.spec.kai.version:
            return f"version {found.version or 'unknown'} runs, and the lab was made for {self.spec.kai.version}"
        parts = found.components.items()
        down = [
            one.state()[0]
            for role, one in parts
            # its owner may have switched other components off
            if not one.up and (role in _NEEDED or (one.want and not one.missing))
        ]
        return "; ".join(down)
