"""Times what tenants do in a running lab: add, remove, and upgrade and rollback of their KAI; by hand, in pairs.

By hand is ``tenants_plain.sh``. The same watches observe both sides from outside (``tenant_watch.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from lab.errors import NoLab
from lab.kai.facts import releases
from lab.kai.model import release
from lab.kai.names import KAI_CHART
from lab.session.lab import Lab
from lab.tenants.removal.timeline import MEANING
from scripts.bench.figures import Figures
from scripts.bench.tenant import Subject
from scripts.bench.tenant_watch import ROLLBACK, RemovalSeen, RollbackSeen, tried

SIDES = ("kailab", "by hand")


def tenants(lab: str, work: Path, figures: Figures, repeats: int, other: str) -> None:
    """Measure a tenant of each mode, and always remove it.

    ``other`` is the KAI version to change to; empty: the newest other one on this machine.
    """
    attached = Lab.attach(lab)
    own = attached.kai_version or attached.spec.kai.version
    for mode in (*(["host-kai"] if attached.has_kai else ["default"]), "own-kai"):
        subject = Subject(attached, work, mode, own if mode == "own-kai" else "")
        try:
            removals(subject, figures, repeats)
            if mode != "own-kai":
                continue
            if version := other or other_version(attached, own):
                changes(subject, figures, repeats, version)
            else:
                figures.notes.append(f"Not measured: upgrade and rollback, as only KAI {own} is on this machine.")
        finally:
            tried(functools.partial(gone, subject), "left behind")


def other_version(lab: Lab, own: str) -> str:
    """The newest KAI whose chart is on this machine, except ``own``; empty without one."""
    at_hand = lab.session.supply.at_hand
    return next((one for one in reversed(releases()) if one != own and at_hand("chart", KAI_CHART, one)), "")


def removals(subject: Subject, figures: Figures, repeats: int) -> None:
    """Time pairs of removals, and each addition before."""
    sides: dict[str, Callable[[], None]] = {"kailab": subject.remove, "by hand": subject.remove_plain}
    for number in range(repeats):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            figures.add(f"tenant add {subject.mode}", subject.add())
            subject.fill(subject.ordinary_pods())
            seen = RemovalSeen(subject.lab.cluster, subject.lab.spec, subject.tenant).during(sides[side])
            if side != "kailab":
                subject.remove()  # the tenant's files on this machine, and the labels and taints of its nodes
            title = f"tenant remove {subject.mode}" + ("" if side == "kailab" else ", by hand")
            figures.add(title, seen.seconds)
            for moment in seen.milestones:
                if moment.seconds is None:
                    figures.problems.append(f"{title}: {moment.name}: {moment.detail}")
                elif moment.name in MEANING and side == "kailab":
                    figures.add(f"{title}: {moment.name}", moment.seconds)
            figures.problems += [f"{title}: {line}" for line in (*seen.left, *seen.disturbed)]


def changes(subject: Subject, figures: Figures, repeats: int, other: str) -> None:
    """Time upgrades and rollbacks of a tenant's KAI, and the rollbacks by hand."""
    older, newer = sorted((subject.kai, other), key=release)
    subject.add()
    subject.load_hook_images(older)
    subject.change(other)  # with all images in the nodes from here on
    if other != older:
        subject.change(older)
    place = subject.fill(subject.running_pods())
    for number in range(repeats):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            by_hand = side != "kailab"
            for verb, version in (("upgrade", newer), ("rollback", older)):
                typed = by_hand and verb == "rollback"
                command = functools.partial(subject.change_plain if typed else subject.change, version)
                seen, lost = RollbackSeen(place, version, subject.test_pods()).during(command)
                title = f"tenant {verb}" + (", by hand" if typed else "")
                figures.problems += [f"{title}: {line}" for line in lost]
                for name in ROLLBACK:
                    figures.add(f"{title}: {name}", seen[name])


def gone(subject: Subject) -> None:
    """Remove the tenant, if it exists."""
    try:
        subject.remove()
    except NoLab:
        return
