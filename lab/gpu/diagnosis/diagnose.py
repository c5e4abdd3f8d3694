"""Looks at the GPUs of a lab that is up: the way of each node's GPUs, and known failures that show. Changes nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lab.errors import Interrupted, LabError
from lab.findings import Finding
from lab.gpu.diagnosis.cluster_stages import KINDS, cluster_stages, gpu_nodes_of
from lab.gpu.diagnosis.node_facts import NodeFacts, ask
from lab.gpu.diagnosis.node_stages import CHECK, Expected, GpuPathStage, node_stages
from lab.gpu.diagnosis.pods import concerned, pod_evidence, read_logs, unwell, wanted_logs
from lab.gpu.diagnosis.symptoms import Evidence, match
from lab.gpu.nodes import on_nodes
from lab.gpu.nvidia.claims import recorded
from lab.gpu.nvidia.node_state import PROGRAMS
from lab.gpu.pools import pools_by_node, short_name
from lab.gpu.simulated.devices import gpus_of
from lab.objects.views import PodView
from lab.session.context import LabContext
from lab.snapshot.cluster_snapshot import UNREAD, ClusterSnapshot, take

SECONDS = 30.0
"""For all of it."""

_NODE_SECONDS = 20.0
_WORLD_SECONDS = 10.0
_LOGS_SECONDS = 8.0

_STARTING = re.compile(r"failed to load plugin|^containerd: |level=fatal")

_POD_UID = re.compile(r"(?:Uid:|podUID=\\?\"?)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""A pod in containerd's and in the kubelet's journal."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class Diagnosis:
    """What was found: a finding for each stage of the way, the symptoms, and what could not be read."""

    lab: str
    path: tuple[Finding, ...]
    symptoms: tuple[Finding, ...]
    unread: tuple[str, ...] = ()

    @property
    def broken(self) -> bool:
        return any(finding.severity == "error" for finding in self.path)


def expected(ctx: LabContext) -> dict[str, Expected]:
    """What each GPU node of the lab should have; empty where it has none, or made no nodes. Raises LabError."""
    spec = ctx.spec
    if spec.cluster.provider != "kind" or spec.gpu.mode == "none":
        return {}
    if spec.gpu.mode == "nvidia":
        programs = tuple(f"/usr/bin/{name}" for name in PROGRAMS)
        shares = recorded(ctx.journal)
        return {
            node: Expected({gpu.uuid: gpu.minor for gpu in gpus}, programs, real=True) for node, gpus in shares.items()
        }
    return {
        node: Expected({gpu.uuid: gpu.minor for gpu in gpus_of(spec.name, node, spec.gpu)})
        for node in pools_by_node(spec)
    }


def diagnose(ctx: LabContext, *, seconds: float = SECONDS, clock: Clock = time.monotonic) -> Diagnosis:
    """Look at nodes and cluster, and name what is wrong. Whatever does not answer is a finding too.

    Args:
        ctx: the lab.
        seconds: for all of it; what has not answered by then is left out, and named.
        clock: for tests.

    Raises:
        Interrupted: the run was cancelled.
    """
    if ctx.spec.gpu.mode == "none" and ctx.spec.cluster.provider == "kind":
        return Diagnosis(
            ctx.spec.name, (Finding("the lab file asks for none", severity="skipped", rule=CHECK, title="GPUs"),), ()
        )
    end = clock() + seconds
    wanted = expected(ctx)
    down, facts = _nodes(ctx, wanted, min(_NODE_SECONDS, seconds))
    silent: list[str] = []
    world = _world(ctx, min(_WORLD_SECONDS, max(end - clock(), 1)), down, silent)
    stages = [stage for node in facts for stage in node_stages(node, wanted[node.node])]
    if world is not None:
        gpus = {node: len(one.gpus) for node, one in wanted.items()} or gpu_nodes_of(world)
        stages += cluster_stages(world, gpus, ours=ctx.spec.cluster.provider == "kind")
    evidence = [line for stage in stages for line in stage.evidence()]
    if world is not None:
        evidence += pod_evidence(world)
        evidence += read_logs(ctx.cluster(), wanted_logs(world), min(_LOGS_SECONDS, end - clock()))
        silent += [f"{kind} objects" for kind in world.facts.get(UNREAD, "").split(", ") if kind]
    evidence += [line for node in facts for line in _told_by_node(node, world)]
    path = (*down, *(stage.finding(_short(ctx, stage)) for stage in stages))
    return Diagnosis(ctx.spec.name, path, match(evidence), tuple(silent))


def _nodes(ctx: LabContext, wanted: Mapping[str, Expected], timeout: float) -> tuple[list[Finding], list[NodeFacts]]:
    """Ask the GPU nodes, all at once; those that cannot be asked are findings."""
    if not wanted:
        return [], []
    try:
        states = {node.name: node.state for node in ctx.nodes()}
    except LabError as error:
        return [_fails("node containers", error.what, f"{ctx.engine.name} ps -a")], []
    down = [
        _fails(short_name(ctx.spec.name, name), f"the node container is {states.get(name, 'gone')}", "lab up")
        for name in wanted
        if states.get(name) != "running"
    ]

    def one(name: str) -> NodeFacts | Finding:
        try:
            return ask(ctx, name, timeout)
        except Interrupted:
            raise
        except LabError as error:
            return _fails(short_name(ctx.spec.name, name), error.what, f"{ctx.engine.name} logs --tail 30 {name}")

    answers = on_nodes((name for name in wanted if states.get(name) == "running"), one).values()
    down += [answer for answer in answers if isinstance(answer, Finding)]
    return down, [answer for answer in answers if isinstance(answer, NodeFacts)]


def _world(ctx: LabContext, timeout: float, down: list[Finding], silent: list[str]) -> ClusterSnapshot | None:
    """The cluster's objects; None where the API does not answer, which is a finding unless the nodes are down."""
    try:
        return take(ctx.cluster(), kinds=KINDS, timeout=timeout)
    except Interrupted:
        raise
    except LabError as error:
        if down:
            silent.append("the cluster")
        else:
            down.append(_fails("Kubernetes API", error.what, error.fix or "lab up"))
        return None


def _told_by_node(node: NodeFacts, world: ClusterSnapshot | None) -> Iterator[Evidence]:
    """What the node's programs said: nvidia-smi, and the journals as far as they are about what is wrong now."""
    yield from (Evidence("nvidia-smi", node.node, line) for line in node.smi)
    pods = world.of("Pod") if world is not None else ()
    sick = [PodView.of(obj) for obj in pods if concerned(obj) and unwell(obj)]
    names, uids = {pod.name for pod in sick}, {pod.uid for pod in sick}
    for unit in ("containerd", "kubelet"):
        down = world is None or node.units.get(unit) != "active"
        for line in node.journal(unit):
            of_others = not uids.issuperset(_POD_UID.findall(line))  # of an earlier pod of the same name, for one
            if down or _STARTING.search(line) or (any(name in line for name in names) and not of_others):
                yield Evidence(f"{unit}-log", node.node, line)


def _short(ctx: LabContext, stage: GpuPathStage) -> str:
    return short_name(ctx.spec.name, stage.where) if stage.where else ""


def _fails(title: str, what: str, fix: str) -> Finding:
    return Finding(what, fix, subject=title, rule=f"{CHECK}.reached", title=title)
