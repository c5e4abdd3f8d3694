"""On GitHub Actions, an annotation at the line of each failed test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.text import workflow_command


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write an annotation for each failed test and each error of a fixture."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        reports = [one for kind in ("failed", "error") for one in terminalreporter.stats.get(kind, ())]
        terminalreporter.write("".join(_annotations(reports, config.rootpath)))


def _annotations(reports: list[Any], root: Path) -> Iterator[str]:
    for report in reports:
        file, line, _ = report.location
        message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "") or str(report.longrepr)
        # of a checkout somewhere below the job's folder, GitHub wants the path from there
        path = os.path.relpath(root / file, os.environ.get("GITHUB_WORKSPACE", "."))
        yield workflow_command("error", message[:2000], file=path, line=(line or 0) + 1, title=report.nodeid)
