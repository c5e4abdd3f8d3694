"""Rehearses another KAI version in a running cluster: snapshot, load, change, smoke tests, suites, result; back on red.

A rehearsal in which nothing failed, but tests are missing, is not proven: the cluster keeps the version.

``lab.steps.kai.upgrade.change`` makes the change, ``ClusterKai.save`` writes the wanted KAI into the lab's state, and
``lab.session.kai_changes`` keeps the version that a rollback returns to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lab.config import QueueSpec
from lab.config.budget import top_queue
from lab.engine.step import State
from lab.errors import Busy, Interrupted, LabError
from lab.invariants import InvariantReport, Watcher
from lab.kai import line_of
from lab.operations.abandoned_removal import remove_abandoned
from lab.operations.kai.cluster_kai import ClusterKai
from lab.operations.kai.suites import run_suites
from lab.session.kai_changes import RollbackRecord, WantedKai, forget, last_change, record
from lab.steps.kai.step import Kai
from lab.steps.kai.upgrade.change import Change, change_kai
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal, Suites
from lab.steps.kai.upgrade.smoke_test import SLUG, WHOLE, SmokeTest, run_smoke_tests, smoke_test_queue, start_load
from lab.steps.kai.upgrade.workload_snapshot import WorkloadSnapshot, compare, take_snapshot
from lab.steps.queues import temporary_queues
from lab.workloads.namespace import WorkloadNamespace

_SETTLE_SECONDS = 130.0
"""How long breaches within their grace period are watched at the end; the longest one has 120 s."""

_QUEUES = (QueueSpec(name="rehearsal-top"), QueueSpec(name="rehearsal", parent="rehearsal-top"))
"""The load's queues: two levels, which KAI before 0.13 requires. Below the queue with a lab's budget, only the leaf."""


@dataclass
class _Load:
    """What the rehearsal itself runs in the cluster."""

    trials: WorkloadNamespace
    """The namespace of the smoke tests, and of the pods that measure the downtime."""
    queue: str = ""
    """Leaf queue of these pods; empty: one of the cluster's own."""
    place: WorkloadNamespace | None = None
    """The namespace of the load; None: there is none."""
    started: tuple[SmokeTest, ...] = ()


@dataclass
class _Watched:
    report: InvariantReport | None = None
    trouble: str = field(default="the invariants were not watched to the end")


def rehearse(
    kai: ClusterKai, version: str, *, suites: bool = True, keep: bool = False, later: bool = False
) -> Rehearsal:
    """Change KAI to a version and check whether it works; on red, return to the old version.

    Continues a rehearsal that was killed: the old version is the one before that.

    Args:
        kai: of a running lab.
        version: a version of KAI, newer or older.
        suites: also run the suites, where they are installed.
        keep: keep the version even on red.
        later: the suites run after a later version instead.

    Raises:
        NoLab: the lab has no such tenant.
        SpecError, Unavailable: the cluster cannot have that version; nothing was changed.
        LabError: the old version does not run the load of the rehearsal; nothing was changed.
        Busy: another process is changing the lab; nothing was changed.
        Interrupted: stopped; the same call or a rollback continues from there.
    """
    lab, wanted = kai.lab, kai.with_version(version)
    kai.check(wanted)
    remove_abandoned(lab)  # otherwise the suites would, and workloads of before would be missing
    before = take_snapshot(kai.cluster)
    earlier = last_change(lab.paths, kai.tenant)
    old = kai.with_version(before.kai) if before.kai and before.kai != wanted.version else None
    unfinished = earlier is not None and earlier.leads_to(version)
    continued = earlier if unfinished and (old is None or not _works(kai, old)) else None
    if continued is not None:
        earlier, old = None, continued.before
    was = old.version if old else before.kai
    note = continued or (RollbackRecord(old, wanted) if old else None)
    with contextlib.ExitStack() as stack:
        load = stack.enter_context(_load(kai, was, interrupted=continued is not None))
        watched, loaded = _Watched(), True
        with _watching(kai, watched):
            found = _changed(kai, was, wanted, note, load)
        found = replace(found, invariants=watched.report, unwatched=watched.trouble if not watched.report else "")
        if found.reasons:
            found = replace(found, suites=Suites(ran=False, summary="left out, because the change has failed already"))
        else:
            stack.close()  # the suites need the GPUs of the load
            loaded = False
            if later:
                ran = Suites(ran=False, later=True)
            else:
                ran = run_suites(lab, kai.tenant) if suites else Suites(ran=False, summary="left out (--no-suites)")
            found = replace(found, suites=ran, outcome=compare(before, take_snapshot(kai.cluster)))
        if old is None or not found.reasons or keep:
            _done(kai)
            return found if old is None or not found.reasons else replace(found, kept=True)
        try:
            place = load if loaded else _Load(stack.enter_context(kai.namespace(SLUG)))
            back = _change(kai, old, RollbackRecord(wanted, old, back=True), place)
        except Interrupted:
            raise
        except LabError as error:
            return replace(found, error_back=str(error))
        # Restore the earlier record: a later rollback must not lead to the version that has just failed.
        if earlier is not None:
            record(lab.paths, kai.tenant, earlier)
        else:
            forget(lab.paths, kai.tenant)
        outcome = compare(before, take_snapshot(kai.cluster))
        return replace(found, back=replace(back, comparison=outcome))


def roll_back(kai: ClusterKai, to: str | None = None) -> Rehearsal:
    """Return KAI to the version before its last change, with the values and a tenant's queues of that version.

    Continues an interrupted rollback. Runs neither load, smoke tests nor suites, to be quick.

    Args:
        kai: of a running lab.
        to: a version other than the one before.

    Raises:
        NoLab: the lab has no such tenant.
        Busy: another process is changing the lab; nothing was changed.
        LabError: no earlier version is recorded, or the rollback failed.
    """
    lab = kai.lab
    if to is None:
        last = last_change(lab.paths, kai.tenant)
        if last is None:
            raise LabError(
                f"no earlier KAI version of {kai.where} is recorded",
                fix=f"name the version: {kai.rollback} --to VERSION",
            )
        target = last.target
    else:
        target = kai.with_version(to)
    kai.check(target)
    remove_abandoned(lab)
    before = take_snapshot(kai.cluster)
    note = None
    if before.kai and before.kai != target.version:
        note = RollbackRecord(kai.with_version(before.kai), target, back=True)
    with kai.namespace(SLUG) as trials:
        change = _change(kai, target, note, _Load(trials))
    _done(kai)
    return Rehearsal(kai.tenant, before.kai, target.version, change, rehearsed=False)


def _changed(kai: ClusterKai, was: str, wanted: WantedKai, note: RollbackRecord | None, load: _Load) -> Rehearsal:
    """Change KAI, and check under load whether the new version works."""
    try:
        change = _change(kai, wanted, note, load)
    except (Interrupted, Busy):
        raise
    except LabError as error:
        return Rehearsal(kai.tenant, was, wanted.version, None, error=str(error), load=load.started)
    found = Rehearsal(kai.tenant, was, wanted.version, change, load=load.started)
    if change.problems:
        return found
    if load.place is not None:
        load.place.remove(WHOLE)  # its GPU is for the smoke tests
    spec = kai.context(wanted).spec
    queue = load.queue or smoke_test_queue(spec)
    trials = run_smoke_tests(load.trials, queue, line_of(wanted.version), sharing=spec.kai.gpu_sharing)
    outcome = compare(_without(change.snapshot, WHOLE), take_snapshot(kai.cluster)) if load.place else None
    return replace(found, trials=trials, under_load=outcome)


def _works(kai: ClusterKai, version: WantedKai) -> bool:
    """Whether the cluster has this KAI; before Helm records the next one, a killed change has begun to replace it."""
    ctx = kai.context(version)
    return Kai(ctx.spec).observe(ctx).state is State.READY


def _without(snapshot: WorkloadSnapshot, name: str) -> WorkloadSnapshot:
    pods = tuple(pod for pod in snapshot.pods if pod.title.rpartition("/")[2] != name)
    return replace(snapshot, pods=pods)


@contextlib.contextmanager
def _load(kai: ClusterKai, version: str, *, interrupted: bool) -> Iterator[_Load]:
    """The namespace of the smoke tests, and on the host a queue and running workloads in another one.

    A tenant has workloads of its own; the host of a lab may have none. Raises LabError: the version does not run them.
    """
    lab = kai.lab
    with contextlib.ExitStack() as stack:
        trials = stack.enter_context(kai.namespace(SLUG))
        if kai.tenant or interrupted:
            left = SmokeTest("workloads", skipped="an interrupted change is finished", unproven=True)
            yield _Load(trials, started=(left,) if interrupted and not kai.tenant else ())
            return
        queue = stack.enter_context(_queue(kai))
        place = stack.enter_context(kai.namespace("load"))
        kai.context(kai.wanted()).progress("starting workloads")
        started = start_load(place, queue, line_of(version), sharing=lab.spec.kai.gpu_sharing)
        if failed := [one for one in started if one.problem]:
            raise LabError(
                f"KAI {version} of {kai.where} does not run the load ({failed[0].name}); nothing was changed",
                evidence=[one.problem for one in failed],
                fix=f"kailab explain --all --name {lab.spec.name}",
            )
        yield _Load(trials, queue, place, started)


@contextlib.contextmanager
def _queue(kai: ClusterKai) -> Iterator[str]:
    """A leaf queue for the block. A KAI whose webhook does not answer keeps it until 'kailab up' removes it."""
    removing = False
    top, leaf = top_queue(kai.lab.spec), _QUEUES[-1]
    queues = (leaf.model_copy(update={"parent": None}),) if top else _QUEUES
    try:
        with temporary_queues(kai.cluster, kai.lab.spec.name, queues, top=top) as names:
            yield names[leaf.name]
            removing = True
    except LabError:
        if not removing:
            raise


@contextlib.contextmanager
def _watching(kai: ClusterKai, watched: _Watched) -> Iterator[None]:
    """Watch the invariants of the cluster during the block."""
    with Watcher(kai.scopes) as watcher:
        watcher.run(lambda: watcher.synced)
        watcher.start()
        yield
        watcher.stop()
        if watcher.trouble is not None:
            watched.trouble = f"the invariants were not watched to the end: {watcher.trouble}"
            return
        watcher.settle(_SETTLE_SECONDS)
        watched.report = watcher.report()


def _change(kai: ClusterKai, wanted: WantedKai, note: RollbackRecord | None, load: _Load) -> Change:
    """Record ``note`` and change KAI, under the lab's lock."""
    with kai.lab.session.locked():
        if note is not None:
            record(kai.lab.paths, kai.tenant, note)
        ctx, space = kai.context(wanted), load.trials
        return change_kai(ctx, tenant=kai.tenant, save=lambda: kai.save(wanted), space=space, queue=load.queue)


def _done(kai: ClusterKai) -> None:
    if (last := last_change(kai.lab.paths, kai.tenant)) is not None:
        record(kai.lab.paths, kai.tenant, replace(last, done=True))
