"""Runs the same workload in two tenants, one after the other or at once, and deletes it again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lab.compare.annotation_diff import SchedulerMarks, differences, marks_of
from lab.compare.measure import Round, measure, reservations_of
from lab.compare.model import Comparison, Run
from lab.compare.record import ComparisonRecorder
from lab.compare.recording import TENANT, Recording
from lab.compare.target import Target, target_of
from lab.compare.workload import Fitted, fit
from lab.errors import SpecError, WaitTimeout
from lab.explain.wait_evidence import wait_evidence
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.lint import ManifestDocument
from lab.objects.fields import Obj
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import NodeView
from lab.operations.abandoned_removal import remove_abandoned
from lab.session.lab import Lab
from lab.snapshot.pod_info import GpuRole, PodInfo
from lab.workloads.namespace import WorkloadNamespace

_FREE_SECONDS = 60.0


def compare(
    lab: Lab,
    a: str,
    b: str,
    documents: Sequence[ManifestDocument],
    *,
    rounds: int = 1,
    timeout: float = 180.0,
    at_once: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Run a workload in two tenants and compare what their schedulers did.

    By default one runs after the other, as they may share nodes and CPU; the order alternates from round to round. A
    run ends when all pods have settled or after ``timeout`` seconds, and is deleted before the next one begins.
    Comparing a tenant with itself shows the variation between two runs of one scheduler. ``at_once`` needs dedicated
    nodes. ``say`` receives a line about each run.

    Raises NoLab, SpecError or ManifestsRefused before anything is created; later ApiFailed, WaitTimeout or Interrupted,
    with the namespaces deleted.
    """
    if rounds < 1:
        raise SpecError(f"--rounds must be at least 1 (got {rounds})", fix="use --rounds 1 or more")
    targets = (target_of(lab, "a", a), target_of(lab, "b", b))
    if at_once:
        _refuse_sharing(targets)
    fitted: dict[str, Fitted] = {target.side.letter: fit(documents, target) for target in targets}
    remove_abandoned(lab)  # pods of a killed comparison hold GPUs
    runs: list[Run] = []
    last: dict[str, SchedulerMarks] = {}
    for number in range(1, rounds + 1):
        order = targets if number % 2 else targets[::-1]
        for run, marks in _round(lab, order, fitted, number, timeout, at_once, say):
            runs.append(run)
            last[run.letter] = marks
    return Comparison(
        lab=lab.spec.name,
        a=targets[0].side,
        b=targets[1].side,
        rounds=rounds,
        at_once=at_once,
        runs=tuple(runs),
        differences=differences(last["a"], last["b"]),
        notes=tuple(dict.fromkeys(text for one in fitted.values() for text in one.notes)),
    )


def _refuse_sharing(targets: tuple[Target, Target]) -> None:
    nodes = [frozenset(target.side.nodes) for target in targets]
    if not all(nodes) or nodes[0] & nodes[1]:
        raise SpecError(
            "--at-once needs tenants with dedicated nodes",
            evidence=[f"{one.tenant}: {', '.join(one.side.nodes) or 'shares nodes'}" for one in targets],
            fix="omit --at-once, or give both tenants 'nodes' in the lab file",
        )


def _round(
    lab: Lab,
    order: Sequence[Target],
    fitted: Mapping[str, Fitted],
    number: int,
    timeout: float,
    at_once: bool,
    say: Callable[[str], None],
) -> Iterator[tuple[Run, SchedulerMarks]]:
    def one(turn: int, target: Target) -> tuple[Run, SchedulerMarks]:
        say(f"round {number}: {target.tenant} ({target.side.scheduler})")
        return _OneRun(lab, target, fitted[target.side.letter], number, turn, timeout).go()

    if at_once:
        with ThreadPoolExecutor(max_workers=len(order), thread_name_prefix="compare") as pool:
            futures = [pool.submit(one, 1, target) for target in order]
        yield from (future.result() for future in futures)
    else:
        yield from (one(turn, target) for turn, target in enumerate(order, 1))


@dataclass(frozen=True)
class _OneRun:
    """The workload in one tenant, once."""

    lab: Lab
    target: Target
    fitted: Fitted
    number: int
    turn: int
    timeout: float

    def go(self) -> tuple[Run, SchedulerMarks]:
        """Create the workload, wait until it settles, measure and delete it."""
        name, host = self.target.tenant, self.lab.cluster
        workloads = WorkloadNamespace.open(
            self.lab.spec.name, host, f"compare {name}", tenant=name, cluster=self.lab.tenant(name)
        )
        fitted = self.fitted.placed(workloads.namespace, self.lab.spec.name)
        try:
            with ComparisonRecorder(workloads) as recorder:
                settled, notes = self._submit(workloads, fitted, recorder)
                recording = recorder.recording(settled)
            gpus = GpuSource.of(self.lab.context("compare")).read()
            why = explanations(workloads, pending(recording))
        finally:
            _clear(workloads, fitted)
        nodes = [NodeView.of(node) for node in host.list("Node")]
        memory = {node.name: node.gpu_memory or 0 for node in nodes}
        what = Round(self.target.side.letter, self.number, self.turn, name, workloads.namespace)
        notes += self._others(gpus, workloads, nodes)
        notes += self._freed(reservations_of(recording))
        run = measure(what, recording, fitted.objects, gpus, why, memory, notes)
        return run, marks_of(recording, fitted.objects, by_host=self.target.by_host)

    def _submit(
        self, workloads: WorkloadNamespace, fitted: Fitted, recorder: ComparisonRecorder
    ) -> tuple[bool, list[str]]:
        expected = 0
        for number, wave in enumerate(fitted.waves, 1):
            for planned in wave:
                recorder.sent(planned.workload)
                workloads.cluster.create(planned.doc)
                expected += planned.pods
            if not recorder.settle(expected, self.timeout):
                left = len(fitted.waves) - number
                missing = f"; {left} later waves were not created" if left else ""
                return False, [f"not settled within {self.timeout:g} s{missing}"]
        return True, []

    def _others(self, gpus: GpuMap, workloads: WorkloadNamespace, nodes: Sequence[NodeView]) -> list[str]:
        """Note that other pods hold GPUs of the nodes on which this tenant's pods may run."""
        own = set(self.target.side.nodes)
        dedicated = {node.name for node in nodes if node.labels.get(NODE_LABEL)}
        found = {
            gpu.title
            for holder, gpu in gpus.holders
            if gpu is not None
            and (gpu.node in own if own else gpu.node not in dedicated)
            and (holder.tenant, holder.namespace) != (workloads.tenant, workloads.namespace)
        }
        return [f"pods that are not of this workload hold a part of {', '.join(sorted(found))}"] if found else []

    def _freed(self, groups: frozenset[str]) -> list[str]:
        """Wait until KAI has deleted the reservation pods of the run; their end may come after that of the pods."""
        if not groups:
            return []

        def freed(objects: Sequence[Obj]) -> bool:
            pods = map(PodInfo.of, objects)
            return not any(groups & {*pod.view.gpu_groups} for pod in pods if pod.gpu_role is GpuRole.RESERVATION)

        what = "the reservation pods of the run are gone"
        try:
            self.lab.cluster.wait("Pod", freed, timeout=_FREE_SECONDS, what=what)
        except WaitTimeout as error:
            return [f"after the run: {error.what}"]
        return []


def pending(recording: Recording) -> list[str]:
    """Names of the tenant's pods that existed without a node at the end."""
    last = {seen.uid: seen for seen in recording.pods if seen.side == TENANT}
    return [one.pod.view.name for one in last.values() if not (one.gone or one.pod.view.node or one.pod.view.ended)]


def explanations(workloads: WorkloadNamespace, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By name, why pods have no node. Never raises LabError."""
    if not names:
        return {}
    space = workloads.namespace
    return by_pod(space, names, wait_evidence(workloads.host, workloads.cluster, space, workloads.tenant, names))


def by_pod(namespace: str, names: Sequence[str], lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Lines of ``wait_evidence`` by the pod that they are about; those before the first title are about all pods."""
    titles = {f"Pod {namespace}/{name}:": name for name in names}
    found: dict[str, list[str]] = {name: [] for name in names}
    about = list(names)
    for line in lines:
        if name := next((name for title, name in titles.items() if line.startswith(title)), ""):
            about = [name]
        for one in about:
            found[one].append(line)
    return {name: tuple(own) for name, own in found.items()}


def _clear(workloads: WorkloadNamespace, fitted: Fitted) -> None:
    """Delete owners first, or they recreate their pods; then the pods and the namespace, whatever fails before."""
    with contextlib.ExitStack() as stack:
        stack.callback(workloads.clear)
        for one in fitted.objects:  # called in reverse order
            if one.kind != "Pod":
                stack.callback(workloads.cluster.delete, one.kind, one.doc["metadata"]["name"], workloads.namespace)
