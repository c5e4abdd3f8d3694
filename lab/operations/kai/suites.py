"""Runs the suites that need a tenant, or the host's KAI, in a process of their own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab.errors import HostNotReady
from lab.objects.redact import redact_text
from lab.operations.suites import pytest_command
from lab.session.lab import Lab
from lab.steps.kai.upgrade.rehearsal_result import Suites

_SUITES_SECONDS = 1800.0
_NO_TESTS = 5
"""pytest's exit status when no test was selected."""

_COLUMNS = "400"
"""Width of pytest's lines, so that it does not truncate the reasons of failures."""

_TENANT_MARKS, _HOST_MARKS = "tenants and not disturbs", "kai and not disturbs"
"""Suites that need a tenant, or KAI, without those that break or change one: this KAI is being changed already."""


def run_suites(lab: Lab, tenant: str) -> Suites:
    """Run the suites that need a tenant in this one, or those of the host's KAI (empty), in a separate process.

    Returns:
        The failed tests; ``ran`` is False where kailab is installed without its suites or without pytest.
    """
    try:
        command = [*pytest_command(), "--lab", lab.spec.name]
    except HostNotReady as error:
        return Suites(ran=False, summary=f"only the smoke test ran: {error.what} ({error.fix})")
    # The name as a parameter of a test: a bare word would also match parts of other names.
    mine = ["-k", f"[{tenant}] or [{tenant}- or -{tenant}] or -{tenant}-"] if tenant else []
    marks = _TENANT_MARKS if tenant else _HOST_MARKS
    options = ["-m", marks, *mine, "-q", "-rfEs", "-p", "no:cacheprovider", "--no-header", "--color=no"]
    kept = lab.paths.root / f"rehearsal-{tenant or 'kai'}"
    shutil.rmtree(kept, ignore_errors=True)  # from an earlier rehearsal
    kept.mkdir(parents=True)
    done = lab.runner.run(
        [*command, *options, f"--lab-artifacts={kept}"],
        cwd=Path(__file__).parents[3],  # of a checkout: pytest reads its settings
        env={"PYTEST_ADDOPTS": "", "COLUMNS": _COLUMNS},
        timeout=_SUITES_SECONDS,
        check=False,
    )
    (kept / "pytest.txt").write_text(redact_text(done.out))
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    summary = lines[-1].strip("= ") if lines else f"pytest printed nothing (exit status {done.code})"
    if done.code == _NO_TESTS:
        return Suites(ran=False, summary=f"no suite is selected: {summary}")
    failed = tuple(line.split(" ", 1)[1] for line in lines if line.startswith(("FAILED ", "ERROR ")))
    if done.code and not failed:
        failed = (f"pytest ended with exit status {done.code}: {summary}",)
    skipped = tuple(line.removeprefix("SKIPPED ") for line in lines if line.startswith("SKIPPED "))
    passed = re.search(r"\b(\d+) passed\b", summary)
    return Suites(True, failed, summary, str(kept), int(passed[1]) if passed else 0, skipped)
