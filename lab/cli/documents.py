"""What each command prints with ``--json``, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Union

from lab.cli import bundle, doctor, explain_rule, gpu, lint, logs, report, verify
from lab.compare.model import Comparison
from lab.config.gpu_models import GpuModel
from lab.errors import LabError
from lab.explain.eviction import EvictionExplanation
from lab.explain.explanation import Explanation
from lab.explain.overview import Overview
from lab.explain.queue_explanation import QueueTree
from lab.explain.workload_explanation import WorkloadExplanation
from lab.gpu.map.model import GpuMap
from lab.json_schema import document_schema
from lab.kai.model import VersionLine
from lab.operations.can_run import CanRun
from lab.operations.kai.advise import KaiAdvice
from lab.operations.kai.upgrade import KaiUpgrade
from lab.operations.results import DownReport, PauseReport, PlanReport, StatusReport, UpReport
from lab.operations.tenant.results import Added, Removed, TenantState, TenantStatus
from lab.operations.watch import WatchInstalled, WatchRemoved, WatchStatus
from lab.snapshot.inventory import Inventory
from lab.steps.kai.upgrade.rehearsal_result import Rehearsal
from lab.supply.bundle import Bundle
from lab.ui.gpu_watch import GpuWatchLine, GpuWatchStart

_RULES = (explain_rule.RuleList, explain_rule.DescribedRules)

DOCUMENTS: Mapping[str, tuple[Any, ...]] = {
    "bundle create": (Bundle,),
    "bundle show": (Bundle,),
    "bundle verify": (bundle.Checked,),
    "can-run": (CanRun,),
    "doctor": (doctor.DoctorReport, doctor.Symptoms, *_RULES),
    "down": (DownReport,),
    "explain": (Explanation, WorkloadExplanation, EvictionExplanation, QueueTree, Overview, *_RULES),
    "gpu fail": (gpu.Failed,),
    "gpu heal": (gpu.Healed,),
    "gpu models": (tuple[GpuModel, ...],),
    "gpus": (GpuMap, GpuWatchStart, GpuWatchLine),
    "init": (Inventory,),
    "kai advise": (KaiAdvice,),
    "kai rollback": (Rehearsal,),
    "kai upgrade": (KaiUpgrade,),
    "kai versions": (tuple[VersionLine, ...],),
    "lint": (lint.Linted, lint.LintedVersions, *_RULES),
    "logs": (logs.CollectedLogs,),
    "pause": (PauseReport,),
    "plan": (PlanReport,),
    "report": (report.Written,),
    "reset": (UpReport,),
    "resume": (PauseReport,),
    "status": (StatusReport,),
    "tenant add": (Added,),
    "tenant compare": (Comparison,),
    "tenant list": (tuple[TenantState, ...],),
    "tenant remove": (Removed,),
    "tenant rollback": (Rehearsal,),
    "tenant status": (tuple[TenantStatus, ...],),
    "tenant upgrade": (Rehearsal,),
    "up": (UpReport,),
    "verify": (verify.Verification, explain_rule.DescribedRules),
    "watch install": (WatchInstalled,),
    "watch remove": (WatchRemoved,),
    "watch status": (WatchStatus,),
}
"""The types of the documents of each command; instead of any of them a command may print an error."""


def json_schema(command: str) -> dict[str, Any]:
    """The JSON Schema of what a command prints with ``--json``; KeyError for one that has no JSON."""
    return document_schema(Union[*DOCUMENTS[command], LabError], f"kailab {command} --json")
