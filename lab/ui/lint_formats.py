"""Lint's findings as SARIF 2.1.0 and as annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.findings import Finding, Rule
from lab.lint import RULES
from lab.text import workflow_command
from lab.version import VERSION

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log with one run (OASIS, SARIF 2.1.0, §3.13 and §3.14)."""
    rules: Sequence[Rule[Any]] = tuple(RULES.values())
    driver = {
        "name": "kailab",
        "version": VERSION,
        "rules": [
            {"id": rule.id, "shortDescription": {"text": rule.title}, "help": {"text": rule.source}} for rule in rules
        ],
    }
    numbers = {rule.id: number for number, rule in enumerate(rules)}
    results = [_result(one, numbers[one.rule]) for one in findings]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(finding: Finding, number: int) -> dict[str, Any]:
    path = Path(finding.file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    where: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(finding.line, 1)}}
    }
    if finding.at:
        where["logicalLocations"] = [{"fullyQualifiedName": ".".join(map(str, finding.at))}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": finding.severity,
        "message": {"text": _message(finding)},
        "locations": [where],
    }


def github(findings: Sequence[Finding]) -> str:
    """Return one annotation a line (docs.github.com, "Workflow commands for GitHub Actions")."""
    names: Mapping[str, str] = {"note": "notice"}
    return "".join(
        workflow_command(
            names.get(one.severity, one.severity), _message(one), file=one.file, line=max(one.line, 1), title=one.rule
        )
        for one in findings
    )


def _message(finding: Finding) -> str:
    return f"{finding.subject}: {finding.what}. Next: {finding.next}"
