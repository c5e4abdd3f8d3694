"""Changes the version of the KAI inside a tenant, up or down, without touching running workloads; and measures it.

All of the old KAI is stopped (``uninstall``), then the step ``Kai`` installs the new one with its CRDs, and the step
``Queues`` applies the queues. A change can be interrupted anywhere and repeated.

While webhooks are missing (``REINSTALL``: some seconds, until the new operator has created its own), a pod with a
fraction of a GPU would be admitted without their mutation: a policy denies it (``admission_gate``). In place the
webhooks stay, and deny pods themselves.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lab.config import LabSpec, TenantSpec
from lab.engine.events import Bus, Event, StepProgress
from lab.engine.step import State
from lab.errors import LabError, WaitTimeout
from lab.kube import Cluster
from lab.session.context import LabContext
from lab.steps.kai.step import Kai
from lab.steps.kai.values import kai_images
from lab.steps.queues import Queues
from lab.tenants.removal.timeline import Milestone, Stopwatch
from lab.tenants.upgrade.admission_bridge import AdmissionBridge
from lab.tenants.upgrade.admission_gate import fail_closed, is_left
from lab.tenants.upgrade.downtime_probe import RUNNING, SCHEDULED, DowntimeProbe
from lab.tenants.upgrade.kai_in_tenant import delete_helpers
from lab.tenants.upgrade.preflight import check_kai_version, with_kai_version
from lab.tenants.upgrade.smoke_test import smoke_test_queue
from lab.tenants.upgrade.uninstall import REINSTALL, UNCHANGED, installed_line, stop_kai, strategy
from lab.tenants.upgrade.workload_snapshot import SnapshotDiff, WorkloadSnapshot, compare, take_snapshot
from lab.tenants.vcluster.images import TenantImages
from lab.tenants.vcluster.inner_lab import tenant_context

IMAGES, STOPPED, DEPLOYED = "images in the nodes", "old scheduler stopped", "new release deployed"
READY, ANSWER = "all components ready", "webhooks answer"

ORDER = (IMAGES, STOPPED, DEPLOYED, SCHEDULED, RUNNING, READY, ANSWER)
"""The milestones of a change in their usual order."""

Save = Callable[["TenantSpec"], None]
"""Saves the wanted tenant before anything changes."""

_HOLD_SECONDS = 5.0
"""How long workloads are watched after the new version has bound its first pod: a binder that does not find the
reservation pod of a running fraction deletes the fraction 4 s after a bind on that node (measured with 0.16.8)."""

_WAITING = "waiting for components"
"""The first progress of step ``Kai`` after Helm has returned."""


@dataclass(frozen=True)
class Change:
    """Result of a change of KAI's version in a tenant."""

    tenant: str
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

    @property
    def ok(self) -> bool:
        """Whether the new version schedules and no workload was harmed."""
        return not self.problems and self.comparison.ok

    def at(self, name: str) -> float | None:
        """Seconds of a milestone; None: not reached."""
        return next((milestone.seconds for milestone in self.milestones if milestone.name == name), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant,
            "before": self.before,
            "after": self.after,
            "how": self.how,
            "ok": self.ok,
            "moments": {one.name: one.seconds and round(one.seconds, 3) for one in self.milestones},
            "problems": self.problems,
            "comparison": self.comparison,
        }


def change_kai(
    ctx: LabContext,
    tenant: TenantSpec,
    version: str,
    *,
    save: Save | None = None,
    probe: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Change:
    """Change the KAI inside a tenant to a version, with the values and queues of ``tenant``.

    Running pods, fractions, reservation pods, PodGroups and queues stay; KAI's own pods get a grace period of 1 s. An
    interrupted change can be repeated; a finished one changes nothing.

    Args:
        ctx: the lab's own context.
        tenant: a running tenant of mode own-kai.
        version: KAI's, older or newer.
        save: called after all checks and before anything changes.
        probe: create a pod during the change, for the milestones ``first pod scheduled`` and ``first pod running``.
        clock: seconds.

    Raises:
        SpecError, Unavailable: see ``check_kai_version``; nothing was changed.
        WaitTimeout: a component does not become Ready.
        CommandFailed: Helm failed.
    """
    watch = Stopwatch(clock, ORDER)
    tenant = with_kai_version(tenant, version)
    for warning in check_kai_version(ctx, tenant):
        ctx.notice(warning)
    inner = _noting_deployed(tenant_context(ctx, tenant), watch)
    cluster, kai, queues = inner.cluster(), Kai(inner.spec), Queues(inner.spec)
    ctx.progress("recording workloads")
    before = take_snapshot(cluster)

    def result(how: str, problems: tuple[str, ...] = ()) -> Change:
        after = take_snapshot(cluster)
        comparison = compare(before, after)
        return Change(tenant.name, before.kai, after.kai, how, watch.milestones, before, comparison, problems)

    if save is not None:
        save(tenant)
    killed = is_left(cluster)
    if not killed and all(step.observe(inner).state is State.READY for step in (kai, queues)):
        delete_helpers(cluster)
        return result(UNCHANGED)
    _load_images(ctx, tenant, inner.spec)
    watch.note(IMAGES)
    how = strategy(installed_line(cluster), kai.line)
    problems: tuple[str, ...] = ()
    with contextlib.ExitStack() as gate:
        if how == REINSTALL or killed:
            gate.enter_context(fail_closed(cluster, ctx.spec.name))
        ctx.progress(f"stopping KAI {before.kai or '(partly installed)'}")
        stop_kai(inner, how)
        watch.note(STOPPED)
        downtime = DowntimeProbe(cluster, ctx.spec.name, smoke_test_queue(inner.spec), watch.note) if probe else None
        with downtime or contextlib.nullcontext():
            with AdmissionBridge(cluster, ctx.spec.name, kai.line.namespace, kai.line.admission) as bridge:
                kai.apply(inner)
                watch.note(READY)
                bridge.drain()
                queues.apply(inner)
                ctx.progress("waiting for the webhooks")
                # verify creates a pod with a fraction, which only the webhooks may deny
                gate.close()
                kai.verify(inner)
                watch.note(ANSWER)
                queues.verify(inner)
            try:
                if downtime is not None:
                    downtime.result()
            except LabError as error:
                problems = (error.what,)
    ctx.progress("watching workloads")
    _watch_workloads(cluster, before)
    return result(how, problems)


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


def _load_images(ctx: LabContext, tenant: TenantSpec, inner: LabSpec) -> None:
    if ctx.spec.cluster.provider != "kind":
        return
    images = TenantImages(tenant.name, kai_images(inner))
    if images.observe(ctx).state is not State.READY:
        images.apply(ctx)
        images.verify(ctx)
