"""Diagnoses the GPUs of a running lab: each stage of the GPU path, and the symptoms there. Changes nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.errors import Interrupted, LabError
from lab.findings import Finding
from lab.gpu.diagnosis.cluster_stages import KINDS, cluster_stages, gpu_nodes_of
from lab.gpu.diagnosis.node_facts import NodeFacts, query_node
from lab.gpu.diagnosis.node_stages import CHECK, Expected, node_stages
from lab.gpu.diagnosis.pods import pod_evidence, read_logs, unhealthy, uses_gpus, wanted_logs
from lab.gpu.diagnosis.symptoms import Evidence, match
from lab.gpu.nodes import on_nodes
from lab.gpu.nvidia.claims import recorded
from lab.gpu.nvidia.node_state import RealFiles
from lab.gpu.pools import pools_by_node, short_name
from lab.gpu.simulated.devices import SimulatedGpu, gpus_of
from lab.gpu.simulated.node_files import NodeFiles
from lab.host.nvml import GpuDevice
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.snapshot.cluster_snapshot import UNREAD, ClusterSnapshot, take

SECONDS = 30.0
"""Timeout of the whole diagnosis."""

_NODE_SECONDS = 20.0
_SNAPSHOT_SECONDS = 10.0
_LOGS_SECONDS = 8.0

_STARTING = re.compile(r"failed to load plugin|^containerd: |level=fatal")

_POD_UID = re.compile(r"(?:Uid:|podUID=\\?\"?)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""A pod in containerd's and in the kubelet's journal."""


@dataclass(frozen=True)
class Diagnosis:
    """A finding for each stage of the GPU path, the symptoms, and sources that could not be read."""

    lab: str
    path: tuple[Finding, ...]
    symptoms: tuple[Finding, ...]
    unread: tuple[str, ...] = ()

    @property
    def broken(self) -> bool:
        return any(finding.severity == "error" for finding in self.path)


def expected(ctx: LabContext) -> dict[str, Expected]:
    """Return the state that each GPU node of the lab should have; empty if kailab created none. Raises LabError."""
    spec = ctx.spec
    if not spec.cluster.own or spec.gpu.mode == "none":
        return {}
    real = spec.gpu.mode == "nvidia"
    programs = tuple(f"/usr/bin/{name}" for name in (RealFiles if real else NodeFiles).programs)
    gpus: Mapping[str, Sequence[GpuDevice | SimulatedGpu]] = (
        recorded(ctx.journal) if real else {node: gpus_of(spec.name, node, spec.gpu) for node in pools_by_node(spec)}
    )
    return {node: Expected({gpu.uuid: gpu.minor for gpu in own}, programs, real) for node, own in gpus.items()}


def diagnose(ctx: LabContext) -> Diagnosis:
    """Diagnose nodes and cluster within ``SECONDS``. A source that does not answer is a finding. Raises Interrupted."""
    lab, ours = ctx.spec.name, ctx.spec.cluster.own
    if ctx.spec.gpu.mode == "none" and ours:
        none = Finding("the lab file requests none", severity="skipped", rule=CHECK, title="GPUs")
        return Diagnosis(lab, (none,), ())
    end = time.monotonic() + SECONDS
    wanted = expected(ctx)
    failures, facts = _nodes(ctx, wanted)
    snapshot, unread = _snapshot(ctx, min(_SNAPSHOT_SECONDS, max(end - time.monotonic(), 1)), failures)
    stages = [stage for node in facts for stage in node_stages(node, wanted[node.node])]
    if snapshot is not None:
        gpus = {node: len(one.gpus) for node, one in wanted.items()} or gpu_nodes_of(snapshot)
        stages += cluster_stages(snapshot, gpus, ours=ours)
    evidence = [line for stage in stages for line in stage.evidence()]
    if snapshot is not None:
        evidence += pod_evidence(snapshot)
        evidence += read_logs(ctx.cluster(), wanted_logs(snapshot), min(_LOGS_SECONDS, end - time.monotonic()))
    evidence += [line for node in facts for line in _node_logs(node, snapshot)]
    path = (*failures, *(stage.finding(short_name(lab, stage.where)) for stage in stages))
    return Diagnosis(lab, path, match(evidence), unread)


def _nodes(ctx: LabContext, wanted: Mapping[str, Expected]) -> tuple[list[Finding], list[NodeFacts]]:
    """Query the GPU nodes, all at once; those that do not answer are findings."""
    if not wanted:
        return [], []
    try:
        states = {node.name: node.state for node in ctx.nodes()}
    except LabError as error:
        return [_failure("node containers", error.what, f"{ctx.engine.name} ps -a")], []
    failures = [
        _failure(short_name(ctx.spec.name, name), f"the node container is {states.get(name, 'gone')}", "kailab up")
        for name in wanted
        if states.get(name) != "running"
    ]

    def query(name: str) -> NodeFacts | Finding:
        try:
            return query_node(ctx, name, _NODE_SECONDS)
        except Interrupted:
            raise
        except LabError as error:
            return _failure(short_name(ctx.spec.name, name), error.what, f"{ctx.engine.name} logs --tail 30 {name}")

    answers = on_nodes((name for name in wanted if states.get(name) == "running"), query).values()
    failures += [answer for answer in answers if isinstance(answer, Finding)]
    return failures, [answer for answer in answers if isinstance(answer, NodeFacts)]


def _snapshot(
    ctx: LabContext, timeout: float, failures: list[Finding]
) -> tuple[ClusterSnapshot | None, tuple[str, ...]]:
    """The cluster's objects, and the unread ones; an API that does not answer is a finding unless nodes are down."""
    try:
        snapshot = take(ctx.cluster(), kinds=KINDS, timeout=timeout)
    except Interrupted:
        raise
    except LabError as error:
        if failures:
            return None, ("the cluster",)
        failures.append(_failure("Kubernetes API", error.what, error.fix or "kailab up"))
        return None, ()
    return snapshot, tuple(f"{kind} objects" for kind in snapshot.facts.get(UNREAD, "").split(", ") if kind)


def _node_logs(node: NodeFacts, snapshot: ClusterSnapshot | None) -> Iterator[Evidence]:
    """Output of nvidia-smi, and lines of the journals about current problems."""
    yield from (Evidence("nvidia-smi", node.node, line) for line in node.smi)
    pods = snapshot.of("Pod") if snapshot is not None else ()
    failing = [PodView.of(obj) for obj in pods if uses_gpus(obj) and unhealthy(obj)]
    names, uids = {pod.name for pod in failing}, {pod.uid for pod in failing}
    for unit in ("containerd", "kubelet"):
        down = snapshot is None or node.units.get(unit) != "active"
        for line in node.journal(unit):
            of_others = not uids.issuperset(_POD_UID.findall(line))  # such as an earlier pod of the same name
            if down or _STARTING.search(line) or (any(name in line for name in names) and not of_others):
                yield Evidence(f"{unit}-log", node.node, line)


def _failure(title: str, what: str, fix: str) -> Finding:
    return Finding(what, fix, subject=title, rule=f"{CHECK}.reached", title=title)
