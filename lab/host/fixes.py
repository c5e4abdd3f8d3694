"""The fixes that ``lab up`` can apply to this machine, and their undoing.

Every fix writes into the journal what it is about to change, is harmless when applied or undone twice, and
undoes only what it did itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from lab.errors import LabError, Leftovers
from lab.findings import Finding
from lab.host.daemon import StartEngine
from lab.host.file_backup import HostJournal
from lab.host.kernel import CgroupMounts, Sysctls
from lab.host.machine import Machine
from lab.host.nvidia.cdi_fix import NvidiaCdi
from lab.host.nvidia.runtime_fix import NvidiaRuntime
from lab.host.packages import BuildTools, InstallEngine
from lab.host.runtime import RuntimeWrapper
from lab.tools.process import Runner


class Fix(Protocol):
    """A change to the machine, made with consent."""

    @property
    def id(self) -> str:
        """Stable name; the ``fix_id`` of findings and the ``step`` of journal records."""
        ...

    @property
    def title(self) -> str:
        """A few words for the plan."""
        ...

    @property
    def commands(self) -> tuple[str, ...]:
        """What ``apply`` will run, to be shown before it is agreed to."""
        ...

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Make the change; nothing happens where it is made already. Raises HostNotReady or CommandFailed."""
        ...

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Take it back and say what was done. Raises Leftovers when something still depends on it."""
        ...


def all_fixes(machine: Machine | None = None) -> tuple[Fix, ...]:
    """Every fix, in the order in which they are applied: configuration is there before the daemon starts."""
    here = machine or Machine()
    return (
        CgroupMounts(here),
        Sysctls(here),
        InstallEngine(here),
        RuntimeWrapper(here),
        NvidiaRuntime(here),
        NvidiaCdi(here),
        StartEngine(here),
        BuildTools(here),
    )


def needed_fixes(findings: Iterable[Finding], machine: Machine | None = None) -> tuple[Fix, ...]:
    """The fixes for what the doctor found missing, in the order in which they are applied."""
    wanted = {finding.fix_id for finding in findings if finding.severity in ("error", "warning")}
    return tuple(fix for fix in all_fixes(machine) if fix.id in wanted)


def undo_all(run: Runner, journal: HostJournal, machine: Machine | None = None) -> list[str]:
    """Undo every fix in the journal, last first; an engine that stays keeps what it stands on.

    Returns:
        What was done, a line each.

    Raises:
        Leftovers: something stays; the evidence says what and why, and what was done besides.
    """
    said: list[str] = []
    refused: list[LabError] = []
    for fix in reversed(all_fixes(machine)):
        try:
            said += fix.undo(run, journal)
        except LabError as error:
            refused.append(error)
            if fix.id != BuildTools.id:
                break
    if refused:
        evidence = [line for error in refused for line in (error.what, *error.evidence)]
        evidence += [f"done: {line}" for line in said]
        raise Leftovers("changes to this machine stay", evidence=evidence, fix=refused[0].fix)
    return said
