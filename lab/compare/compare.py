"""Runs the same workload in two tenants, one after the other or at once, and takes everything away again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lab.compare.annotation_diff import SchedulerMarks, differences, wrote
from lab.compare.measure import Round, measure, reservations_of
from lab.compare.model import Comparison, Run
from lab.compare.record import ComparisonRecorder
from lab.compare.recording import TENANT, Recording
from lab.compare.target import Target, target_of
from lab.compare.workload import Fitted, fit
from lab.config.labels import NODE_LABEL
from lab.errors import SpecError, WaitTimeout
from lab.explain.wait_evidence import wait_evidence
from lab.gpu.map.model import GpuMap
from lab.gpu.map.watch import GpuSource
from lab.lint import ManifestDocument
from lab.objects.views import NodeView
from lab.session.lab import Lab
from lab.snapshot.pod_info import GpuRole, PodInfo
from lab.workloads.namespace import WorkloadNamespace

Say = Callable[[str], None]

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
    say: Say = lambda _: None,
) -> Comparison:
    """Run a workload in two tenants and compare what their schedulers made of it.

    One runs after the other, for they may share nodes and CPU; who is first changes from round to round. A run ends
    when all pods have come to rest, and everything of it is gone before the next begins.

    Args:
        lab: the lab.
        a: a tenant.
        b: another one; the same one shows how far two runs of one scheduler lie apart.
        documents: the workload, as ``lab.lint.read`` gives it.
        rounds: how many runs in each tenant.
        timeout: seconds that one run may take to come to rest.
        at_once: run both at the same time; both need nodes of their own.
        say: told what is being done, in a line.

    Raises:
        NoLab: the lab has no such tenant.
        SpecError: ``at_once`` for tenants that share nodes, or no round at all.
        ManifestsRefused: the workload cannot be expressed in one of them, or lint refuses it; nothing was created.
        ApiFailed: a cluster refused an object, or does not answer.
        WaitTimeout: pods of the workload could not be removed.
        Interrupted: the run was cancelled; the namespaces are deleted all the same.
    """
    if rounds < 1:
        raise SpecError(f"{rounds} rounds are none", fix="--rounds 1 or more")
    targets = (target_of(lab, "a", a), target_of(lab, "b", b))
    if at_once:
        _refuse_sharing(targets)
    fitted: dict[str, Fitted] = {target.side.letter: fit(documents, target) for target in targets}
    runs: list[Run] = []
    last: dict[str, SchedulerMarks] = {}
    for number in range(1, rounds + 1):
        order = targets if number % 2 else targets[::-1]
        for run, words in _round(lab, order, fitted, number, timeout, at_once, say):
            runs.append(run)
            last[run.letter] = words
    told = tuple(dict.fromkeys(text for target in targets for text in fitted[target.side.letter].told))
    return Comparison(
        lab=lab.spec.name,
        a=targets[0].side,
        b=targets[1].side,
        rounds=rounds,
        at_once=at_once,
        runs=tuple(runs),
        differences=differences(last["a"], last["b"]),
        told=told,
    )


def _refuse_sharing(targets: tuple[Target, Target]) -> None:
    nodes = [frozenset(target.side.nodes) for target in targets]
    if not all(nodes) or nodes[0] & nodes[1]:
        raise SpecError(
            "running at once needs tenants with nodes of their own",
            evidence=[f"{one.tenant}: {', '.join(one.side.nodes) or 'shares nodes'}" for one in targets],
            fix="leave out --at-once, or give both tenants 'nodes' in the lab file",
        )


def _round(
    lab: Lab,
    order: Sequence[Target],
    fitted: Mapping[str, Fitted],
    number: int,
    timeout: float,
    at_once: bool,
    say: Say,
) -> Iterator[tuple[Run, SchedulerMarks]]:
    def one(turn: int, target: Target) -> tuple[Run, SchedulerMarks]:
        say(f"round {number}: {target.tenant} ({target.side.scheduler})")
        return _OneRun(lab, target, fitted[target.side.letter], number, turn, timeout).go()

    if at_once:
        with ThreadPoolExecutor(max_workers=len(order), thread_name_prefix="compare") as pool:
            asked = [pool.submit(one, 1, target) for target in order]
        yield from (future.result() for future in asked)
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
        """Create it, follow it until it rests, measure it, and take it away."""
        name, host = self.target.tenant, self.lab.cluster
        place = WorkloadNamespace.open(
            self.lab.spec.name, host, f"compare {name}", tenant=name, cluster=self.lab.tenant(name)
        )
        fitted = self.fitted.placed(place.namespace, self.lab.spec.name)
        try:
            with ComparisonRecorder(place) as recorder:
                settled, notes = self._submit(place, fitted, recorder)
                recording = recorder.recording(settled)
            gpus = GpuSource.of(self.lab.context("compare")).read()
            why = explanations(place, pending(recording))
        finally:
            _clear(place, fitted)
        memory = {node.name: node.gpu_memory or 0 for node in map(NodeView.of, host.list("Node"))}
        what = Round(self.target.side.letter, self.number, self.turn, name, place.namespace)
        notes += self._strangers(gpus, place)
        notes += self._freed(reservations_of(recording))
        run = measure(what, recording, fitted.objects, gpus, why, memory, notes)
        return run, wrote(recording, fitted.objects, by_host=self.target.by_host)

    def _submit(self, place: WorkloadNamespace, fitted: Fitted, recorder: ComparisonRecorder) -> tuple[bool, list[str]]:
        expected, settled = 0, True
        for count, wave in enumerate(fitted.waves, 1):
            for planned in wave:
                recorder.sent(planned.workload)
                place.cluster.create(planned.doc)
                expected += planned.pods
            settled = recorder.rest(expected, self.timeout)
            if not settled:
                left = len(fitted.waves) - count
                missing = f"; {left} later waves were not created" if left else ""
                return False, [f"not at rest within {self.timeout:g} s{missing}"]
        return settled, []

    def _strangers(self, gpus: GpuMap, place: WorkloadNamespace) -> list[str]:
        """That others hold GPUs of the nodes on which this tenant's pods may be."""
        own = set(self.target.side.nodes)
        owned = {node.name for node in map(NodeView.of, self.lab.cluster.list("Node")) if node.labels.get(NODE_LABEL)}
        foreign = {
            gpu.title
            for holder, gpu in gpus.holders
            if gpu is not None
            and (gpu.node in own if own else gpu.node not in owned)
            and (holder.tenant, holder.namespace) != (place.tenant, place.namespace)
        }
        return [f"pods that are not of this workload hold a part of {', '.join(sorted(foreign))}"] if foreign else []

    def _freed(self, groups: frozenset[str]) -> list[str]:
        """Wait until no reservation pod holds a GPU for the run any more, so that the next one finds it free."""
        if not groups:
            return []
        try:
            self.lab.cluster.wait(
                "Pod",
                lambda pods: (
                    not any(
                        groups & {*pod.view.gpu_groups}
                        for pod in map(PodInfo.of, pods)
                        if pod.gpu_role is GpuRole.RESERVATION
                    )
                ),
                timeout=_FREE_SECONDS,
                what="the reservation pods of the run are gone",
            )
        except WaitTimeout as error:
            return [f"after the run: {error.what}"]
        return []


def pending(recording: Recording) -> list[str]:
    """Names of the tenant's pods that were there without a node at the end."""
    last = {seen.uid: seen for seen in recording.pods if seen.side == TENANT}
    return [one.pod.view.name for one in last.values() if not (one.gone or one.pod.view.node or one.pod.view.ended)]


def explanations(place: WorkloadNamespace, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By name, why pods of a place have no node. Never raises LabError."""
    if not names:
        return {}
    return apart(place.namespace, names, wait_evidence(place.host, place.cluster, place.namespace, place.tenant, names))


def apart(namespace: str, names: Sequence[str], lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Lines of ``wait_evidence`` by the pod that they are about; what comes before the first title is about all."""
    titles = {f"Pod {namespace}/{name}:": name for name in names}
    found: dict[str, list[str]] = {name: [] for name in names}
    about = list(names)
    for line in lines:
        if name := next((name for title, name in titles.items() if line.startswith(title)), ""):
            about = [name]
        for one in about:
            found[one].append(line)
    return {name: tuple(told) for name, told in found.items()}


def _clear(place: WorkloadNamespace, fitted: Fitted) -> None:
    """Owners first, or they make their pods anew; then the pods and the namespace, whatever went wrong before."""
    with contextlib.ExitStack() as stack:
        stack.callback(place.clear)
        for one in fitted.objects:  # called back in the other direction
            if one.kind != "Pod":
                stack.callback(place.cluster.delete, one.kind, one.doc["metadata"]["name"], place.namespace)
