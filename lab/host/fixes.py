"""The fixes that ``kailab up`` can apply to this machine.

Every fix records a change in the journal before making it, can be applied and undone repeatedly, and undoes only its
own changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from lab.engine.journal import Journal
from lab.errors import LabError, Leftovers
from lab.findings import Finding
from lab.host import daemon
from lab.host.daemon import StartEngine
from lab.host.facts import HostFacts
from lab.host.file_backup import EDIT
from lab.host.kernel import CgroupMounts, Sysctls
from lab.host.machine import Machine
from lab.host.nvidia.cdi_fix import NvidiaCdi
from lab.host.nvidia.runtime_fix import NvidiaRuntime
from lab.host.packages import BuildTools, InstallEngine, build_packages
from lab.host.runtime import RuntimeWrapper
from lab.tools.process import Runner


class Fix(Protocol):
    """A change to the machine that needs the user's approval."""

    @property
    def id(self) -> str:
        """The ``fix_id`` of findings and the ``step`` of journal records."""
        ...

    @property
    def title(self) -> str: ...

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that ``apply`` will run, for display."""
        ...

    def apply(self, run: Runner, journal: Journal) -> None:
        """Make the change unless it is made already. Raises HostNotReady or CommandFailed."""
        ...

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        """Undo the change and return what was done. Raises Leftovers if something still depends on it."""
        ...


def all_fixes(machine: Machine | None = None) -> tuple[Fix, ...]:
    """Every fix, in the order of application: the daemon starts after its configuration is written."""
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
    """The fixes that errors name, in the order of application."""
    wanted = {finding.fix_id for finding in findings if finding.severity == "error"}
    return tuple(fix for fix in all_fixes(machine) if fix.id in wanted)


def build_fixes(facts: HostFacts, machine: Machine | None = None) -> tuple[Fix, ...]:
    """The fix that a build from source needs on a machine that lacks its tools."""
    here = machine or Machine()
    missing = build_packages(facts.compiler, facts.tools.get("debootstrap"), here.root)
    return (BuildTools(here),) if missing and facts.os.debian else ()


def undo_plan(run: Runner, journal: Journal, machine: Machine | None = None) -> list[str]:
    """What ``undo_all`` will do, as imperatives; it changes nothing."""
    names: dict[str, list[str]] = {}
    for change in reversed(journal.owned()):
        kind = change.kind
        if kind in ("file", EDIT):
            kind = "restore" if change.facts["before"] else "remove"
        names.setdefault(kind, []).append(change.name)
    if "/var/lib/docker" in names.get("directory", ()):
        names["image"] = daemon.images(run, machine or Machine())
    else:
        names.pop("image", None)
    lines = [f"set {one.name} back to {one.facts['old']}" for one in journal.owned("sysctl")]
    return [*(f"{verb} {', '.join(names[kind])}" for kind, verb in _VERBS.items() if names.get(kind)), *lines]


_VERBS = {
    "daemon": "stop",
    "service": "stop the service",
    "restore": "restore",
    "remove": "remove",
    "image": "remove the images",
    "directory": "remove with all that is in them:",
    "package": "remove the packages",
    "group": "remove the group",
    "alternative": "set to automatic the alternative",
    "mount": "unmount",
}
"""What undo does with each kind of record, in this order."""


def undo_all(run: Runner, journal: Journal, machine: Machine | None = None) -> list[str]:
    """Undo every fix in the journal, last first, and return what was done.

    If Docker has to be kept, so are the fixes it needs. Raises Leftovers with what was kept, why, and what was done;
    Docker is not even stopped if it has what no lab created.
    """
    here = machine or Machine()
    InstallEngine(here).require_unused(run, journal)
    done: list[str] = []
    failed: list[LabError] = []
    for fix in reversed(all_fixes(here)):
        try:
            done += fix.undo(run, journal)
        except LabError as error:
            failed.append(error)
            if fix.id != BuildTools.id:
                break
    if failed:
        evidence = [line for error in failed for line in (error.what, *error.evidence)]
        evidence += [f"done: {line}" for line in done]
        raise Leftovers("some changes to this machine were not undone", evidence=evidence, fix=failed[0].fix)
    return done
