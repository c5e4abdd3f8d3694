"""Upgrades and rolls back the lab's own KAI, along a path of versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lab.engine.events import Notice
from lab.operations.kai import rehearse
from lab.operations.kai.cluster_kai import HostKai
from lab.session.lab import Lab
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal


@dataclass(frozen=True)
class KaiUpgrade:
    """The rehearsals of the versions on a path, up to the first that failed."""

    path: tuple[str, ...]
    rehearsals: tuple[Rehearsal, ...]

    @property
    def verdict(self) -> Literal["green", "red", "not proven"]:
        """The worst of all versions."""
        verdicts = {one.verdict for one in self.rehearsals}
        return "red" if "red" in verdicts else "not proven" if "not proven" in verdicts else "green"

    @property
    def now(self) -> str:
        """The lab's version now; empty when a change failed half way."""
        return self.rehearsals[-1].now

    @property
    def not_reached(self) -> tuple[str, ...]:
        """Versions of the path after the one that failed."""
        return self.path[len(self.rehearsals) :]

    JSON = "path verdict now not_reached rehearsals"


def upgrade(lab: Lab, path: Sequence[str], *, suites: bool = True, keep: bool = False) -> KaiUpgrade:
    """Rehearse the versions of a path one after the other; a failed one returns to the version before, and ends it.

    Args:
        lab: a running lab.
        path: versions of KAI; the last one is the goal.
        suites: run the suites after the last version.
        keep: keep a version even on red.

    Raises:
        SpecError: a version of the path is refused; nothing was changed.
        Unavailable: a chart or an image of a version is not available; nothing was changed.
        Busy: another process is changing the lab.
        LabError: the lab's KAI does not work before the upgrade.
    """
    with lab.session.locked():
        lab.session.refresh()
    kai = HostKai(lab)
    for version in path:
        kai.check(kai.with_version(version))
    found: list[Rehearsal] = []
    for version in path:
        later = version != path[-1]
        found.append(rehearse.rehearse(kai, version, suites=suites, keep=keep, later=later))
        if found[-1].reasons:
            break
    _note_lab_file(lab)
    return KaiUpgrade(tuple(path), tuple(found))


def roll_back(lab: Lab, to: str | None = None) -> Rehearsal:
    """Return the lab's KAI to the version before, or to a named one; running pods stay.

    Raises:
        SpecError: the lab has no KAI of its own, or the version is refused; nothing was changed.
        Busy: another process is changing the lab.
        LabError: the rollback failed, or no earlier version is recorded.
    """
    with lab.session.locked():
        lab.session.refresh()
    found = rehearse.roll_back(HostKai(lab), to)
    _note_lab_file(lab)
    return found


def _note_lab_file(lab: Lab) -> None:
    """Emit a notice when the next 'kailab up' with the lab file could undo the change."""
    lab.session.refresh()
    text = f"the lab has KAI {lab.kai_version} now: a lab file with another version changes it at the next kailab up"
    lab.bus.emit(Notice("info", text))
