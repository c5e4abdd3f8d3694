"""Removes a lab from any partial state and verifies that nothing remains."""

from __future__ import annotations

import shutil
import threading
import time

from lab.config import LabSpec
from lab.engine.events import Bus, Notice
from lab.engine.journal import Journal
from lab.engine.run import Engine
from lab.errors import Interrupted, LabError, Leftovers
from lab.host import undo_all, undo_plan
from lab.operations.planning import teardown_steps
from lab.operations.results import DownReport
from lab.paths import LabPaths, host_journal, lab_names
from lab.session.session import Session
from lab.steps.cluster.existing import refuse_another
from lab.steps.cluster.ownership import foreign_nodes, living_labs, name_taken
from lab.steps.node_image import NODE_IMAGE, images_of
from lab.text import count
from lab.tools.lock import lock_now
from lab.tools.process import HostRunner
from lab.tools.processes import processes_naming


def down(
    name: str,
    *,
    keep_images: bool = True,
    host: bool = False,
    bus: Bus | None = None,
    cancel: threading.Event | None = None,
    unnamed: bool = False,
) -> DownReport:
    """Remove a lab from any partial state and verify that nothing remains.

    Args:
        name: the lab; removing one that does not exist succeeds.
        keep_images: keep the baked node images for the next ``lab up``.
        host: also undo the changes of this machine, unless a lab of any state directory needs them.
        bus: receives the events of the run.
        cancel: stops the run once it is set.
        unnamed: the user did not name the lab, so it must belong to this state directory.

    Raises:
        NameTaken: the user did not name the lab, and its containers belong to another state directory; with ``host``
            they are skipped.
        Leftovers: something of the lab still exists, or something depends on the changes of this machine.
    """
    session = _session_for_down(name, bus or Bus(), cancel or threading.Event())
    began = time.monotonic()
    kept: list[str] = []
    left: list[str] = []
    with session.locked():
        scope = session.scope
        own = session.spec.cluster.own
        installed = own and session.runner.which(session.engine.name) is not None
        answers = installed and session.engine.call("version", check=False).code == 0
        if not own and session.paths.kubeconfig.exists():
            refuse_another(scope("down"), session.cluster())
        theirs = foreign_nodes(scope("containers")) if answers and unnamed else ()
        if theirs and not host:
            raise name_taken(name, theirs)
        if theirs:
            session.bus.emit(Notice("warning", f"lab {name!r} belongs to another state directory and is not removed"))
        elif answers or (not own and session.paths.kubeconfig.exists()):
            steps = [s for s in teardown_steps(session.spec) if not (keep_images and s.id == NODE_IMAGE)]
            record = Engine(steps, scope, bus=session.bus, cancel=session.cancel, lab=name, partial=True).down()
            if record.cancelled:
                raise Interrupted("stopped during lab down", fix="run lab down again")
            left += [f"{step}: {error}" for step, error in record.errors]
            left += record.left
            kept += _images(session) if keep_images and own else []
        elif session.journal.owned("cluster") or session.journal.owned("container"):
            raise LabError(
                f"{session.engine.name} does not answer, so the lab's containers cannot be removed",
                fix=f"start {session.engine.name} and run lab down again (lab doctor shows how)",
            )
        if not theirs and not left:  # the journal says what still has to be removed
            left += _remove_state(session)
    if left:
        raise Leftovers(
            f"{count(len(left), 'object')} of lab {name!r} still {'exists' if len(left) == 1 else 'exist'}",
            evidence=left,
            fix=f"run lab down --name {name} again; lab doctor lists what remains",
        )
    undone = _undo_host(session) if host else ()
    return DownReport(name, time.monotonic() - began, tuple(kept), tuple(left), undone, tuple(_host_changes()))


def planned_undo() -> list[str]:
    """What ``down`` with ``host`` does to this machine, as imperatives; empty if labs changed nothing."""
    return undo_plan(HostRunner(), Journal(host_journal()))


def _undo_host(session: Session) -> tuple[str, ...]:
    """Undo the changes of this machine. Raises Leftovers if a lab of any state directory needs them."""
    if not _host_changes():
        return ()
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
            fix="remove each with 'lab down --name NAME' as its user; then run the same command again",
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


def _session_for_down(name: str, bus: Bus, cancel: threading.Event) -> Session:
    """A session from the lab's saved state, or from its name alone when the state is unreadable."""
    try:
        session = Session.attached(name)
    except LabError:
        spec = LabSpec(name=name)
        session = Session(spec, spec)
    session.bus, session.cancel, session.runner.cancel = bus, cancel, cancel
    return session


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
