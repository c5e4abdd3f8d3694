"""Facts about this machine, the doctor's checks, and journalled fixes that can be undone."""

from lab.host.check import HostNeeds
from lab.host.checks import doctor
from lab.host.facts import HostFacts, gather
from lab.host.fixes import Fix, all_fixes, build_fixes, needed_fixes, undo_all, undo_plan
from lab.host.machine import Machine

__all__ = [
    "Fix",
    "HostFacts",
    "HostNeeds",
    "Machine",
    "all_fixes",
    "build_fixes",
    "doctor",
    "gather",
    "needed_fixes",
    "undo_all",
    "undo_plan",
]
