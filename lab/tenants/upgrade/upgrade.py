"""Brings the KAI inside a tenant to another version, up or down, without touching what runs; and measures it.

The KAI that is there is stopped whole (``old_kai``), then the step ``Kai`` installs the other one, with its CRDs, and
the step ``Queues`` looks after the queues. All of it can be cut off anywhere and be done again.

While webhooks are missing (``ANEW``: from the stop until the new operator has made its own, some seconds), a pod that
asks for a part of a GPU would be admitted without what they add to it: a policy refuses it meanwhile (``unjudged``). In
place the webhooks stay, and refuse by themselves.
"""

from __future__ import annotations

import contextlib
import threading
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
from lab.tenants.removal.timeline import Milestone
from lab.tenants.upgrade.admission_bridge import AdmissionBridge
from lab.tenants.upgrade.admission_gate import fail_closed
from lab.tenants.upgrade.downtime_probe import RUNNING, SCHEDULED, DowntimeProbe
from lab.tenants.upgrade.preflight import changed, check_change, versions_at_hand
from lab.tenants.upgrade.uninstall import ANEW, UNCHANGED, installed_line, stop, way
from lab.tenants.upgrade.workload_snapshot import SnapshotDiff, WorkloadSnapshot, compare, look
from lab.tenants.vcluster.images import TenantImages
from lab.tenants.vcluster.inner_lab import tenant_context

__all__ = ["Change", "change_kai", "changed", "check_change", "running_inside", "trial_queue", "versions_at_hand"]

IMAGES, STOPPED, DEPLOYED = "images in the nodes", "old scheduler stopped", "new release deployed"
READY, ANSWER = "all components ready", "webhooks answer"

ORDER = (IMAGES, STOPPED, DEPLOYED, SCHEDULED, RUNNING, READY, ANSWER)
"""The moments of a change, as they mostly come."""

Save = Callable[["TenantSpec"], None]
"""Writes down, before anything changes, how a tenant is wanted from now on."""

_HOLD_SECONDS = 5.0
"""How long what runs is watched after the new version has bound its first pod: a binder that takes a running fraction
for one without its reservation pod deletes it 4 s after a bind on that node (seen with 0.16.8)."""

_WAITING = "waiting for components"
"""What the step ``Kai`` says first when Helm has returned."""


@dataclass(frozen=True)
class Change:
    """How a change of KAI's version in a tenant went.

    Attributes:
        tenant: its name.
        before: version that was there; empty: none.
        after: version that is there now.
        how: ``in place``, ``anew`` or ``nothing to do``.
        moments: seconds from the command, in the order of ``ORDER``.
        snapshot: what ran before.
        comparison: what became of it.
        problems: what went wrong with the new version itself; empty: it schedules.
    """

    tenant: str
    before: str
    after: str
    how: str
    moments: tuple[Milestone, ...]
    snapshot: WorkloadSnapshot
    comparison: SnapshotDiff
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the new version schedules and nothing that ran was harmed."""
        return not self.problems and self.comparison.ok

    def at(self, name: str) -> float | None:
        """Seconds of a moment; None where it was not reached."""
        return next((moment.seconds for moment in self.moments if moment.name == name), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant,
            "before": self.before,
            "after": self.after,
            "how": self.how,
            "ok": self.ok,
            "moments": {m.name: None if m.seconds is None else round(m.seconds, 3) for m in self.moments},
            "problems": self.problems,
            "comparison": self.comparison,
        }


class _Times:
    """Moments as they are noted, from several threads; of several of one name the first counts."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._start = clock, clock()
        self._noted: dict[str, Milestone] = {}
        self._lock = threading.Lock()

    def note(self, name: str) -> None:
        with self._lock:
            self._noted.setdefault(name, Milestone(name, self._clock() - self._start))

    @property
    def all(self) -> tuple[Milestone, ...]:
        with self._lock:
            return tuple(self._noted[name] for name in ORDER if name in self._noted)


def running_inside(ctx: LabContext, tenant: TenantSpec) -> WorkloadSnapshot:
    """What runs in a tenant now. Raises ApiFailed."""
    return look(ctx.tenant(tenant.name))


def change_kai(
    ctx: LabContext,
    tenant: TenantSpec,
    version: str,
    *,
    save: Save | None = None,
    canary: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Change:
    """Bring the KAI inside a tenant to a version; its values and queues are those of ``tenant``.

    Running pods, fractions, reservation pods, PodGroups and queues are left alone; KAI's own pods get one second of
    grace. Doing it again after it was cut off, or when all is as wanted, is fine.

    Args:
        ctx: the lab's own context.
        tenant: a tenant of mode own-kai that is up.
        version: KAI's, older or newer.
        save: called once nothing speaks against it and before anything changes.
        canary: send a small pod meanwhile, for the moments ``first pod scheduled`` and ``first pod running``.
        clock: seconds.

    Raises:
        SpecError, Unavailable: see ``check_change``; nothing was changed.
        WaitTimeout: a component does not come up.
        CommandFailed: Helm refused.
    """
    times = _Times(clock)
    tenant = changed(tenant, version)
    for warning in check_change(ctx, tenant):
        ctx.notice(warning)
    inner = _heard(tenant_context(ctx, tenant), times)
    cluster, kai, queues = inner.cluster(), Kai(inner.spec), Queues(inner.spec)
    ctx.progress("looking at what runs")
    before = look(cluster)
    if save is not None:
        save(tenant)
    if all(step.observe(inner).state is State.READY for step in (kai, queues)):
        return _ended(tenant, before, UNCHANGED, times, look(cluster))
    _load_images(ctx, tenant, inner.spec)
    times.note(IMAGES)
    how = way(installed_line(cluster), kai.line)
    problems: list[str] = []
    with contextlib.ExitStack() as guard:
        if how == ANEW:
            guard.enter_context(fail_closed(cluster, ctx.spec.name))
        ctx.progress(f"stopping KAI {before.kai or 'that was left half way'}")
        stop(inner, how)
        times.note(STOPPED)
        probe = DowntimeProbe(cluster, ctx.spec.name, trial_queue(inner.spec), times.note) if canary else None
        with probe or contextlib.nullcontext():
            with AdmissionBridge(cluster, ctx.spec.name, kai.line.namespace, kai.line.admission) as quick:
                kai.apply(inner)
                times.note(READY)
                quick.step_aside()
                queues.apply(inner)
                ctx.progress("waiting for the webhooks")
                # Asks with a pod that wants a fraction: from here on it must be the webhooks that answer.
                guard.close()
                kai.verify(inner)
                times.note(ANSWER)
                queues.verify(inner)
            try:
                if probe is not None:
                    probe.result()
            except LabError as error:
                problems.append(error.what)
    ctx.progress("watching what runs")
    _hold(cluster, before)
    return _ended(tenant, before, how, times, look(cluster), tuple(problems))


def trial_queue(inner: LabSpec) -> str:
    """A leaf queue for pods that try KAI out: the first with room for GPUs."""
    leaves = [queue for queue in inner.queues if queue.name in inner.leaf_queues]
    return next((queue.name for queue in leaves if queue.gpu.limit), leaves[0].name)


def _hold(cluster: Cluster, before: WorkloadSnapshot) -> None:
    """Watch what ran before for a while; the look after it says what was lost."""
    uids = {pod.uid for pod in before.pods}

    def lost(pods: list[dict[str, Any]]) -> bool:
        return not uids <= {pod["metadata"].get("uid") for pod in pods}

    with contextlib.suppress(WaitTimeout):
        cluster.wait(
            "Pod",
            lambda pods: not lost(pods),
            timeout=3 * _HOLD_SECONDS,
            fail=lambda pods: "one is gone" if lost(pods) else None,
            what="all pods that ran before are still there",
            hold=_HOLD_SECONDS,
        )


def _ended(
    tenant: TenantSpec,
    before: WorkloadSnapshot,
    how: str,
    times: _Times,
    after: WorkloadSnapshot,
    problems: tuple[str, ...] = (),
) -> Change:
    return Change(tenant.name, before.kai, after.kai, how, times.all, before, compare(before, after), problems)


def _heard(ctx: LabContext, times: _Times) -> LabContext:
    """The context, listened to: ``Kai`` says when Helm has returned."""
    bus = Bus()

    def hear(event: Event) -> None:
        if isinstance(event, StepProgress) and event.text == _WAITING:
            times.note(DEPLOYED)
        ctx.bus.emit(event)

    bus.subscribe(hear)
    return replace(ctx, bus=bus)


def _load_images(ctx: LabContext, tenant: TenantSpec, inner: LabSpec) -> None:
    if ctx.spec.cluster.provider != "kind":
        return
    images = TenantImages(tenant.name, kai_images(inner))
    if images.observe(ctx).state is not State.READY:
        images.apply(ctx)
        images.verify(ctx)
