"""Changes the version of the KAI in a cluster, up or down, without touching running workloads; and measures it.

In a tenant, all of the old KAI is stopped (``uninstall``), then the step ``Kai`` installs the new one with its CRDs,
and the step ``Queues`` applies the queues. On the host Helm does it as KAI's migration guides say, so that what users
would meet is seen. A change can be interrupted anywhere and repeated.

While webhooks are missing (``REINSTALL``: some seconds, until the new operator has created its own), a pod with a
fraction of a GPU would be admitted without their mutation: a policy denies it (``admission_gate``). In place the
webhooks stay, and deny pods themselves.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lab.engine.events import Bus, Event, StepProgress
from lab.engine.milestones import Milestone, Stopwatch
from lab.engine.step import State
from lab.errors import LabError, WaitTimeout
from lab.kube import Cluster
from lab.session.context import LabContext
from lab.steps.kai.step import Kai
from lab.steps.kai.upgrade import leftovers
from lab.steps.kai.upgrade.admission_bridge import AdmissionBridge
from lab.steps.kai.upgrade.admission_gate import fail_closed, is_left
from lab.steps.kai.upgrade.downtime_probe import RUNNING, SCHEDULED, DowntimeProbe
from lab.steps.kai.upgrade.preflight import check_kai_version
from lab.steps.kai.upgrade.smoke_test import smoke_test_queue
from lab.steps.kai.upgrade.uninstall import REINSTALL, UNCHANGED, stop_kai
from lab.steps.kai.upgrade.workload_snapshot import SnapshotDiff, WorkloadSnapshot, compare, take_snapshot
from lab.steps.kai.values import kai_images
from lab.steps.loaded_images import LoadedImages
from lab.steps.queues import Queues
from lab.workloads.namespace import WorkloadNamespace

IMAGES, STOPPED, DEPLOYED = "images in the nodes", "old scheduler stopped", "new release deployed"
READY, ANSWER = "all components ready", "webhooks answer"

ORDER = (IMAGES, STOPPED, DEPLOYED, SCHEDULED, RUNNING, READY, ANSWER)
"""The milestones of a change in their usual order."""

_HOLD_SECONDS = 5.0
"""How long workloads are watched after the new version has bound its first pod: a binder that does not find the
reservation pod of a running fraction deletes the fraction 4 s after a bind on that node (measured with 0.16.8)."""

_WAITING = "waiting for components"
"""The first progress of step ``Kai`` after Helm has returned."""


@dataclass(frozen=True)
class Change:
    """Result of a change of KAI's version in a cluster."""

    tenant: str
    """Empty: the lab's own cluster."""
    before: str
    """The version before; empty: none."""
    after: str
    how: str
    """``in place``, ``anew`` or ``nothing to do``."""
    milestones: tuple[Milestone, ...]
    snapshot: WorkloadSnapshot
    """Workloads before."""
    comparison: SnapshotDiff
    """Effect on these workloads."""
    problems: tuple[str, ...] = ()
    """Failures of the new version itself; empty: it schedules."""
    unscheduled: float | None = None
    """Seconds that new pods waited for a node during the change, the longest time; None: not measured."""

    @property
    def ok(self) -> bool:
        """Whether the new version schedules and no workload was harmed."""
        return not self.problems and self.comparison.ok

    def at(self, name: str) -> float | None:
        """Seconds of a milestone; None: not reached."""
        return next((milestone.seconds for milestone in self.milestones if milestone.name == name), None)

    @property
    def seconds_by_milestone(self) -> Mapping[str, float | None]:
        return {one.name: one.seconds for one in self.milestones}

    JSON = "tenant before after how ok moments=seconds_by_milestone unscheduled problems comparison"


def change_kai(
    ctx: LabContext,
    *,
    tenant: str = "",
    save: Callable[[], None] = lambda: None,
    space: WorkloadNamespace | None = None,
    queue: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Change:
    """Change the KAI in a cluster to the version, values and queues of the context's spec.

    Running pods, fractions, reservation pods, PodGroups and queues stay; KAI's own pods get a grace period of 1 s where
    they are stopped. An interrupted change can be repeated; a finished one changes nothing.

    Args:
        ctx: of the cluster; its spec has the wanted KAI.
        tenant: the tenant whose cluster that is; empty: the host.
        save: called after all checks and before anything changes.
        space: for pods that are created during the change, for the milestones ``first pod scheduled`` and ``first
            pod running`` in a tenant, and the time that new pods are not scheduled on the host; None: none are.
        queue: of these pods, a leaf; empty: one of the spec's.
        clock: seconds.

    Raises:
        SpecError, Unavailable: see ``check_kai_version``; nothing was changed.
        WaitTimeout: a component does not become Ready.
        CommandFailed: Helm failed.
    """
    watch = Stopwatch(clock, ORDER)
    for warning in check_kai_version(ctx, f"tenant {tenant}" if tenant else "the lab"):
        ctx.notice(warning)
    ctx = _noting_deployed(ctx, watch)
    cluster, lab, queues = ctx.cluster(), ctx.spec.name, Queues(ctx.spec)
    kai = Kai(ctx.spec, stop_first=bool(tenant))
    ctx.progress("recording workloads")
    before = take_snapshot(cluster)
    save()
    leftovers.delete_bridge(cluster)
    if all(step.observe(ctx).state is State.READY for step in (kai, queues)):
        after = take_snapshot(cluster)
        return Change(tenant, before.kai, after.kai, UNCHANGED, (), before, compare(before, after))
    _load_images(ctx, tenant or kai.id)
    watch.note(IMAGES)
    how, killed = kai.strategy(cluster), is_left(cluster)
    problems: tuple[str, ...] = ()
    downtime = None
    if space is not None:
        note = watch.note if tenant else lambda _: None
        leaf = queue or smoke_test_queue(ctx.spec)
        downtime = DowntimeProbe(cluster, lab, space, leaf, note, repeat=not tenant)
    bridge = AdmissionBridge(cluster, lab, kai.line.namespace, kai.line.admission) if tenant else None
    with contextlib.ExitStack() as gate:
        if how == REINSTALL or killed:
            gate.enter_context(fail_closed(cluster, lab))
        if how == REINSTALL or killed or tenant:
            ctx.progress(f"stopping KAI {before.kai or '(partly installed)'}")
            stop_kai(ctx, how)
            watch.note(STOPPED)
        with downtime or contextlib.nullcontext():
            with bridge or contextlib.nullcontext():
                kai.install(ctx)
                watch.note(READY)
                if bridge is not None:
                    bridge.drain()
                queues.apply(ctx)
                ctx.progress("waiting for the webhooks")
                # verify creates a pod with a fraction, which only the webhooks may deny
                gate.close()
                kai.verify(ctx)
                watch.note(ANSWER)
                queues.verify(ctx)
            try:
                if downtime is not None:
                    downtime.result()
            except LabError as error:
                problems = (error.what,)
    ctx.progress("watching workloads")
    _watch_workloads(cluster, before)
    after = take_snapshot(cluster)
    unscheduled = None if downtime is None or tenant else round(downtime.longest, 3)
    comparison = compare(before, after)
    return Change(tenant, before.kai, after.kai, how, watch.milestones, before, comparison, problems, unscheduled)


def _watch_workloads(cluster: Cluster, before: WorkloadSnapshot) -> None:
    """Watch the earlier workloads for a while; the snapshot that follows shows what was lost."""
    uids = {pod.uid for pod in before.pods}

    def complete(pods: list[dict[str, Any]]) -> bool:
        return uids <= {pod["metadata"].get("uid") for pod in pods}

    with contextlib.suppress(WaitTimeout):
        cluster.wait(
            "Pod",
            complete,
            timeout=3 * _HOLD_SECONDS,
            fail=lambda pods: None if complete(pods) else "a pod is gone",
            what="all earlier pods still exist",
            hold=_HOLD_SECONDS,
        )


def _noting_deployed(ctx: LabContext, watch: Stopwatch) -> LabContext:
    """The context with a bus that notes when Helm has returned in step ``Kai``."""
    bus = Bus()

    def forward(event: Event) -> None:
        if isinstance(event, StepProgress) and event.text == _WAITING:
            watch.note(DEPLOYED)
        ctx.bus.emit(event)

    bus.subscribe(forward)
    return replace(ctx, bus=bus)


def _load_images(ctx: LabContext, owner: str) -> None:
    if not ctx.images_in_nodes:
        return
    images = LoadedImages(owner, kai_images(ctx.spec))
    if images.observe(ctx).state is not State.READY:
        images.apply(ctx)
        images.verify(ctx)
