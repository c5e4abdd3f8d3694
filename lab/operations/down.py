"""Takes a lab away, from any half-made state, and proves that nothing is left."""

from __future__ import annotations

import shutil
import threading
import time

from lab.config import LabSpec
from lab.engine.events import Bus, Notice
from lab.engine.journal import Journal
from lab.engine.run import Engine
from lab.errors import Interrupted, LabError, Leftovers
from lab.host import undo_all
from lab.operations.planning import teardown_steps
from lab.operations.results import DownReport
from lab.paths import LabPaths, host_journal
from lab.session.session import Session
from lab.steps.cluster.ownership import name_taken, strangers
from lab.steps.node_image import NODE_IMAGE, images_of
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
    """Take a lab away, from any half-made state, and prove it.

    Args:
        name: the lab; one that is already gone is success.
        keep_images: leave the baked node images for the next ``lab up``.
        host: also undo what was changed on this machine.
        unnamed: nobody named the lab, so it must be one of this state directory.

    Raises:
        NameTaken: nobody named the lab, and its containers are somebody else's; with ``host`` they are passed over.
        Leftovers: something of the lab still exists.
    """
    session = _session_for_down(name, bus or Bus(), cancel)
    began = time.monotonic()
    kept: list[str] = []
    left: list[str] = []
    with session.locked():
        engine_there = session.runner.which(session.engine.name) is not None
        engine_answers = engine_there and session.engine.call("version", check=False).code == 0
        scope = session.scope
        theirs = strangers(scope("containers")) if engine_answers and unnamed else ()
        if theirs and not host:
            raise name_taken(name, theirs)
        if theirs:
            # the machine's changes are to be undone all the same
            session.bus.emit(Notice("warning", f"lab {name!r} here is another state directory's, and is left alone"))
        elif engine_answers:
            steps = [s for s in teardown_steps(session.spec) if not (keep_images and s.id == NODE_IMAGE)]
            record = Engine(steps, scope, bus=session.bus, cancel=session.cancel, lab=name, partial=True).down()
            if record.cancelled:
                raise Interrupted("stopped during lab down", fix="run lab down again")
            left += [f"{step}: {error}" for step, error in record.errors]
            left += record.left
            kept += [f"node image {image}" for image in images_of(scope("proof"))] if keep_images else []
            left += _remove_state(session.paths)
        elif session.journal.owned("cluster") or session.journal.owned("container"):
            raise LabError(
                f"{session.engine.name} does not answer, so the lab's containers cannot be removed",
                fix=f"start {session.engine.name} and run lab down again (lab doctor shows how)",
            )
        else:
            left += _remove_state(session.paths)
    journal = Journal(host_journal())
    undone = tuple(undo_all(session.runner, journal)) if host else ()
    changes = tuple(f"{owned.kind} {owned.name}" for owned in journal.owned())
    report = DownReport(name, time.monotonic() - began, tuple(kept), tuple(left), undone, changes)
    if left:
        raise Leftovers(
            f"{len(left)} thing(s) of lab {name!r} remain",
            evidence=left,
            fix=f"run lab down --name {name} again; lab doctor lists them",
        )
    return report


def _session_for_down(name: str, bus: Bus, cancel: threading.Event | None) -> Session:
    """A session by the lab's saved state, or by its name alone when that cannot be read."""
    cancel = cancel or threading.Event()
    try:
        session = Session.attached(name)
    except LabError:
        spec = LabSpec(name=name)
        session = Session(spec, spec)
    session.bus, session.cancel, session.runner.cancel = bus, cancel, cancel
    return session


def _remove_state(paths: LabPaths) -> list[str]:
    """Remove the lab's state directory (kubeconfigs, log, journal); returns what remains of it or works in it."""
    shutil.rmtree(paths.root, ignore_errors=True)
    left = [f"process {pid}: {line}" for pid, line in processes_naming(paths.root)]
    if paths.root.exists():
        left += [f"file {path}" for path in sorted(paths.root.rglob("*"))] or [f"directory {paths.root}"]
    return left
