"""Removes a lab from any partial state and verifies that nothing remains."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Literal

from lab.config import GpuSpec, KaiSpec, LabSpec, TenantSpec
from lab.config.sections import BudgetSpec, ClusterSpec
from lab.engine.events import Bus, Notice
from lab.engine.journal import Journal
from lab.engine.run import Engine
from lab.errors import Interrupted, LabError, Leftovers, NoLab, SpecError
from lab.gpu.simulated.named_nodes import simulated_nodes
from lab.host import engines
from lab.host.fixes import undo_all, undo_plan
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.leftovers import labelled
from lab.objects.fields import labels_of
from lab.objects.isolation_labels import OWN_KAI_LABEL, tenant_namespace
from lab.operations.abandoned import abandoned, in_words
from lab.operations.abandoned_removal import remove_abandoned
from lab.operations.planning import teardown_steps
from lab.operations.results import DownReport
from lab.operations.watch import remove_with
from lab.paths import LabPaths, host_journal, host_lock, lab_names
from lab.session.context import KIND_CLUSTER_LABEL
from lab.session.lab import Lab
from lab.session.session import Session
from lab.session.user_kubeconfig import CLAIM, connect
from lab.steps.cluster.checkpoint import discard
from lab.steps.cluster.existing import ExistingCluster, refuse_another
from lab.steps.cluster.ownership import foreign_nodes, living_labs, name_taken
from lab.steps.kai.step import NAMESPACE as KAI_NAMESPACE
from lab.steps.node_image import NODE_IMAGE, images_of
from lab.text import count
from lab.tools.container import ContainerEngine
from lab.tools.lock import lock, lock_now
from lab.tools.process import HostRunner, Runner
from lab.tools.processes import processes_naming

_QUEUES = "queues.scheduling.run.ai"


def down(
    name: str,
    *,
    keep_images: bool = True,
    host: bool = False,
    bus: Bus | None = None,
    cancel: threading.Event | None = None,
    unnamed: bool = False,
    at: tuple[Path, str] | None = None,
) -> DownReport:
    """Remove a lab from any partial state and verify that nothing remains.

    Args:
        name: the lab; removing one that does not exist succeeds.
        keep_images: keep the baked node images for the next ``kailab up``.
        host: also undo the changes of this machine, unless a lab of any state directory needs them.
        bus: receives the events of the run.
        cancel: stops the run once it is set.
        unnamed: the user did not name the lab, so it must belong to this state directory.
        at: kubeconfig and context of an existing cluster with a lab whose state is lost: its labels say what it has.

    Raises:
        NameTaken: the user did not name the lab, and its containers belong to another state directory; with ``host``
            they are skipped.
        Leftovers: something of the lab still exists, or something depends on the changes of this machine.
    """
    session = _session_at(name, *at) if at else _session_for_down(name)
    session.bus, session.cancel = bus or Bus(), cancel or threading.Event()
    session.runner.cancel = session.cancel
    began = time.monotonic()
    kept: list[str] = []
    left: list[str] = []
    with session.locked():
        scope = session.scope
        own = session.spec.cluster.own
        installed = own and session.runner.which(session.engine.name) is not None
        answers = installed and session.engine.call("version", check=False).code == 0
        if not own and session.paths.kubeconfig.exists():
            session.renew_credentials()
            refuse_another(scope("down"), session.cluster())
        theirs = foreign_nodes(scope("containers")) if answers and unnamed else ()
        if theirs and not host:
            raise name_taken(name, theirs)
        if theirs:
            session.bus.emit(Notice("warning", f"lab {name!r} belongs to another state directory and is not removed"))
        elif answers or (not own and session.paths.kubeconfig.exists()):
            if at:
                session.bus.emit(Notice("info", f"the state of lab {name} is lost: its labels say what it has"))
            left += [] if own else [*_undo_killed(session), *_remove_watch(session)]
            steps = [s for s in teardown_steps(session.spec) if not (keep_images and s.id == NODE_IMAGE)]
            record = Engine(steps, scope, bus=session.bus, cancel=session.cancel, lab=name, partial=True).down()
            if record.cancelled:
                raise Interrupted("stopped during kailab down", fix="run kailab down again")
            left += [f"{step}: {error}" for step, error in record.errors]
            left += record.left
            kept += _images(session) if keep_images and own else []
            if not keep_images:
                discard(scope("checkpoint"))
            if session.paths.checkpoint.exists():
                (kept if keep_images else left).append(f"checkpoint {session.paths.checkpoint}")
        elif session.journal.owned("cluster") or session.journal.owned("container"):
            raise LabError(
                f"{session.engine.name} does not answer, so the lab's containers cannot be removed",
                fix=f"start {session.engine.name} and run kailab down again (kailab doctor shows how)",
            )
        elif installed:
            unknown = f"{session.engine.name} does not answer: whether it has containers of lab {name!r} is not known"
            session.bus.emit(Notice("warning", unknown))
        if not theirs and not left:  # the journal says what still has to be removed
            left += _remove_state(session)
    if left:
        raise Leftovers(
            f"{count(len(left), 'object')} of lab {name!r} still {'exists' if len(left) == 1 else 'exist'}",
            evidence=left,
            fix=f"run kailab down --name {name} again; kailab doctor lists what remains",
        )
    undone = _undo_host(session) if host else ()
    return DownReport(name, round(time.monotonic() - began, 3), tuple(kept), undone, tuple(_host_changes()))


def _undo_killed(session: Session) -> list[str]:
    """Undo what killed test runs changed in a cluster that outlives the lab; returns what stays.

    The records of it are in the lab's state: when that is gone, nobody knows that a node was cordoned for a test.
    """
    lab = Lab(session)
    done = remove_abandoned(lab)
    for line in in_words(one for one in done if not one.problem):
        session.bus.emit(Notice("info", f"removed {line}"))
    failed = [one for one in done if one.problem]
    return in_words(failed or [one for one in abandoned(lab) if not one.fix])


def _remove_watch(session: Session) -> list[str]:
    """Remove what ``kailab watch install`` made in a cluster that outlives the lab; returns why something of it stays.

    Before the queues: one with a canary pod cannot be deleted.
    """
    try:
        done = remove_with(Lab(session))
    except Interrupted:
        raise
    except LabError as error:
        return [f"watch: {error}"]
    for line in done.removed if done else ():
        session.bus.emit(Notice("info", f"removed {line} of the watch"))
    for line in done.kept if done else ():
        session.bus.emit(Notice("warning", f"{line}, and is left alone"))
    return []


def planned_undo() -> list[str]:
    """What ``down`` with ``host`` does to this machine, as imperatives; empty if labs changed nothing."""
    return undo_plan(HostRunner(), Journal(host_journal()))


def _undo_host(session: Session) -> tuple[str, ...]:
    """Undo the changes of this machine. Raises Leftovers if a lab of any state directory needs them."""
    with lock(host_lock(), session.runner.stopped):
        return _undo_host_alone(session) if _host_changes() else ()


def _undo_host_alone(session: Session) -> tuple[str, ...]:
    labs = living_labs(session.runner)
    for other in lab_names():
        held = lock_now(LabPaths(other).lock)
        if held is None:
            labs.append(f"lab {other}, which another kailab process is changing")
        else:
            with held:
                pass
    if labs:
        raise Leftovers(
            "the changes of this machine were not undone: labs need them",
            evidence=labs,
            fix="remove each with 'kailab down --name NAME' as its user; then run the same command again",
        )
    return tuple(undo_all(session.runner, Journal(host_journal())))


def _host_changes() -> list[str]:
    return [f"{one.kind} {one.name}" for one in Journal(host_journal()).owned() if one.kind != "image"]


def _images(session: Session) -> list[str]:
    """Images that stay for the next lab: baked ones, and those that labs loaded."""
    loaded = (owned.name for owned in Journal(host_journal()).owned("image"))
    return [f"node image {name}" for name in images_of(session.scope("proof"))] + [
        f"image {name}" for name in loaded if session.engine.image_id(name) is not None
    ]


def _session_for_down(name: str) -> Session:
    """A session from the lab's saved state, or from its name alone when the state is unreadable.

    Raises LabError where the journal names an existing cluster: without the state, only labels say what the lab has.
    """
    try:
        return Session.attached(name)
    except LabError as error:
        spec = LabSpec(name=name)
        session = Session(spec, spec)
        for owned in session.journal.owned(CLAIM):
            raise LabError(
                error.what,
                evidence=[f"the lab is on the existing cluster {owned.name}"],
                fix=f"rm -r {session.paths.root}, then kailab down --context NAME --lab {name}",
            ) from error
        return Session(spec, spec, engine_name=_engine_with(session.runner, session.scope("cluster").kind_name))


def _engine_with(run: Runner, cluster: str) -> str:
    """The engine that has nodes of a kind cluster, which the state would name; docker if none has."""
    filters = ("-aq", "--filter", f"label={KIND_CLUSTER_LABEL}={cluster}")
    installed = [ContainerEngine(run, name) for name in engines.NAMES if run.which(name) is not None]
    return next((one.name for one in installed if one.call("ps", *filters, check=False).out.strip()), "docker")


def _session_at(name: str, kubeconfig: Path, context: str) -> Session:
    """A session for a lab whose state is lost, from its labels in an existing cluster. Raises NoLab, SpecError."""
    if name in lab_names():
        raise SpecError(f"lab {name} has its state on this machine", fix=f"kailab down --name {name}")
    spec = LabSpec(name=name).model_copy(
        update={"cluster": ClusterSpec(provider="existing", kubeconfig=kubeconfig, context=context)}
    )
    cluster = connect(spec)
    spaces = {
        space["metadata"]["name"]: labels_of(space["metadata"])
        for space in cluster.list("Namespace", labels=f"{OWNER_LABEL}={name}")
    }
    if not spaces and not (found := labelled(cluster, name)).titles:
        raise NoLab(
            f"cluster {context} has nothing of a lab {name}",
            evidence=[f"you may not list {', '.join(found.unlisted)}"] if found.unlisted else (),
            fix=cluster.kubectl("get", "ns", "-L", OWNER_LABEL),
        )
    prefix = tenant_namespace("")
    modes: dict[str, Literal["own-kai", "default"]] = {
        space.removeprefix(prefix): "own-kai" if OWN_KAI_LABEL in labels else "default"
        for space, labels in spaces.items()
        if space.startswith(prefix)
    }
    update = {
        "scheduler": "kai" if cluster.get("CustomResourceDefinition", _QUEUES) else "default",
        "kai": KaiSpec(manage="install" if KAI_NAMESPACE in spaces else "adopt"),
        **_gpus_at(cluster, name),
        "tenants": tuple(TenantSpec(name=tenant, mode=mode) for tenant, mode in modes.items()),
    }
    spec = spec.model_copy(update=update)
    session = Session(spec, spec)
    session.save()
    ExistingCluster(spec).apply(session.scope("cluster"))
    return session


def _gpus_at(cluster: Cluster, name: str) -> dict[str, object]:
    """The sections about the GPUs of a lab: simulated ones, by the labels of the nodes, or none."""
    if not (nodes := simulated_nodes(cluster, name)):
        return {"gpu": GpuSpec(mode="none")}
    return {"gpu": GpuSpec(mode="simulated", nodes=nodes, image="lost"), "budget": BudgetSpec(gpus=0)}


def _remove_state(session: Session) -> list[str]:
    """Remove the lab's state directory; returns the files that remain and the processes of the lab that use it."""
    root = session.paths.root
    shutil.rmtree(root, ignore_errors=True)
    left = []
    for process in processes_naming(root):
        if process.started:
            left.append(f"process {process.pid}: {process.line}")
        else:
            text = f"process {process.pid}, which kailab did not start, names removed files: {process.line}"
            session.bus.emit(Notice("info", text))
    if root.exists():
        left += [f"file {path}" for path in sorted(root.rglob("*"))] or [f"directory {root}"]
    return left
