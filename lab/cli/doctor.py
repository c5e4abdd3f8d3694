"""``kailab doctor``: checks of this machine and of the running lab's GPUs, and the known failures in a log."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypedDict

import typer

from lab.cli.explain_rule import ExplainRule, RuleList, explain_rule
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, Settings, print_json, spec_of, warn_about_kai
from lab.config import LabSpec
from lab.errors import NoLab, SpecError
from lab.findings import Finding
from lab.gpu.diagnosis.anonymize import portable
from lab.gpu.diagnosis.diagnose import diagnose
from lab.gpu.diagnosis.host import examine
from lab.gpu.diagnosis.symptoms import in_text, symptoms
from lab.operations.doctor import with_ways
from lab.session.lab import Lab
from lab.tools.process import HostRunner
from lab.ui.findings import render_diagnosis, render_machine, render_rule_list, render_symptoms

app = command_app()

LogFile = Annotated[
    str | None,
    typer.Option("--log", metavar="FILE", help="Name the known failures in a log or error text; '-' reads stdin."),
]
Known = Annotated[bool, typer.Option("--symptoms", help="List all known failures without checking anything.")]

NOT_READY, UNKNOWN = 4, 1


class Symptoms(TypedDict):
    """Known failures that were found."""

    symptoms: tuple[Finding, ...]


class DoctorReport(Symptoms):
    """This machine, and the GPU path of the lab that runs on it."""

    facts: dict[str, Any]
    findings: tuple[Finding, ...]
    lab: str | None
    unread: tuple[str, ...]


@app.command(epilog="Examples: kailab doctor · kailab doctor --profile gpu · kailab doctor --log - < error.txt")
def doctor(
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    name: Name = None,
    log: LogFile = None,
    known: Known = False,
    rule: ExplainRule = None,
    as_json: AsJson = False,
) -> None:
    """Check this machine and the GPUs of the running lab, with a fix for each problem.

    Exit code 4 if a requirement is missing. With --log: 1 if the text contains no known failure.
    """
    if rule is not None:
        explain_rule(rule, as_json)
    elif known:
        _known(as_json)
    elif log is not None:
        _log(log, as_json)
    else:
        described = spec_of(file, profile, settings) if file or profile or settings else None
        _examine(described, name, as_json)


def _examine(described: LabSpec | None, name: str | None, as_json: bool) -> None:
    spec, lab = _target(described, name)
    if spec.scheduler != "default":
        warn_about_kai(spec.kai.version, spec.cluster.kubernetes)
    here = examine(HostRunner(), spec)
    if lab is None:
        here = replace(here, findings=with_ways(spec, here.findings))
    seen = diagnose(lab.context("doctor")) if lab is not None else None
    found = (*here.symptoms, *(seen.symptoms if seen else ()))
    findings = (*here.findings, *(seen.path if seen else ()))
    if as_json:
        print_json(
            DoctorReport(
                facts=portable(here.facts, here.nvidia),
                findings=findings,
                symptoms=found,
                lab=seen.lab if seen else None,
                unread=seen.unread if seen else (),
            )
        )
    else:
        render_machine(here.findings)
        if seen is not None:
            render_diagnosis(seen)
        render_symptoms(found)
    if any(one.severity == "error" for one in findings):
        raise typer.Exit(NOT_READY)


def _target(described: LabSpec | None, name: str | None) -> tuple[LabSpec, Lab | None]:
    """The lab file to check the machine against, and the lab if it runs. Raises NoLab for an unknown ``name``."""
    try:
        lab = Lab.attach(name or (described.name if described else None))
    except NoLab:
        if name:
            raise
        return described or spec_of(None, None, None), None
    return described or lab.spec, lab


def _log(log: str, as_json: bool) -> None:
    try:
        text = sys.stdin.read() if log == "-" else Path(log).expanduser().read_text(errors="replace")
    except OSError as error:
        raise SpecError(f"--log {log}: {error.strerror}", fix="name a readable file, or - for stdin") from error
    found = in_text(text, "stdin" if log == "-" else Path(log).name)
    if as_json:
        print_json(Symptoms(symptoms=found))
    else:
        render_symptoms(found, nothing="no known failure in this text; kailab logs collects more about a lab")
    if not found:
        raise typer.Exit(UNKNOWN)


def _known(as_json: bool) -> None:
    rows = tuple(symptoms().values())
    if as_json:
        print_json(RuleList(rules=rows))
    else:
        render_rule_list(f"{len(rows)} known failures of the GPU path", rows, "kailab doctor")
