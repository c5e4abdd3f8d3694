"""``lab doctor``: this machine, the GPUs of the lab that is up, and the known failures in a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, Settings, print_json, spec_of
from lab.config import LabSpec
from lab.errors import NoLab, SpecError
from lab.gpu.diagnosis.anonymize import portable
from lab.gpu.diagnosis.diagnose import diagnose
from lab.gpu.diagnosis.host import examine
from lab.gpu.diagnosis.symptoms import in_text, symptoms
from lab.session.lab import Lab
from lab.tools.process import HostRunner
from lab.ui.findings import render_diagnosis, render_machine, render_rules, render_symptoms

app = command_app()

LogFile = Annotated[
    str | None,
    typer.Option("--log", metavar="FILE", help="Name the known failures in a log or error text; '-' is stdin."),
]
Known = Annotated[bool, typer.Option("--symptoms", help="List all known failures; asks nothing of the machine.")]

NOT_READY, UNKNOWN = 4, 1


@app.command(epilog="Examples: lab doctor · lab doctor --profile gpu · lab doctor --log - < error.txt")
def doctor(
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    name: Name = None,
    log: LogFile = None,
    known: Known = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine and the GPUs of the lab that is up; what is wrong is told with its fix.

    Exit code 4 when a needed thing is missing. With --log: 1 when no known failure is in the text.
    """
    if known:
        _known(as_json)
    elif log is not None:
        _log(log, as_json)
    else:
        _examine(file, profile, settings, name, as_json)


def _examine(
    file: Path | None, profile: str | None, settings: list[str] | None, name: str | None, as_json: bool
) -> None:
    spec, lab = _meant(file, profile, settings, name)
    here = examine(HostRunner(), spec)
    seen = diagnose(lab.context("doctor")) if lab is not None else None
    found = (*here.symptoms, *(seen.symptoms if seen else ()))
    findings = (*here.findings, *(seen.path if seen else ()))
    if as_json:
        print_json(
            {
                "facts": portable(here.facts, here.nvidia),
                "findings": findings,
                "symptoms": found,
                "lab": seen.lab if seen else None,
                "unread": list(seen.unread) if seen else [],
            }
        )
    else:
        render_machine(here.findings)
        if seen is not None:
            render_diagnosis(seen)
        render_symptoms(found)
    if any(one.severity == "error" for one in findings):
        raise typer.Exit(NOT_READY)


def _meant(
    file: Path | None, profile: str | None, settings: list[str] | None, name: str | None
) -> tuple[LabSpec, Lab | None]:
    """The lab file to judge the machine by, and the lab to look at; None where it is not up.

    Raises:
        SpecError: the lab file or an option is wrong.
        NoLab: there is no lab of that name.
    """
    described = spec_of(file, profile, settings) if file or profile or settings else None
    try:
        lab = Lab.attach(name or (described.name if described else None))
    except NoLab:
        if name:
            raise
        return described or spec_of(None, None, None), None
    return described or lab.spec, lab


def _log(log: str, as_json: bool) -> None:
    """Name what is in a text. Raises SpecError when it cannot be read."""
    try:
        text = sys.stdin.read() if log == "-" else Path(log).expanduser().read_text(errors="replace")
    except OSError as error:
        raise SpecError(f"--log {log}: {error.strerror}", fix="name a file that can be read, or - for stdin") from error
    found = in_text(text, "stdin" if log == "-" else Path(log).name)
    if as_json:
        print_json({"symptoms": found})
    else:
        render_symptoms(found, nothing="no known failure is in this text; lab logs collects more of a lab")
    if not found:
        raise typer.Exit(UNKNOWN)


def _known(as_json: bool) -> None:
    rows = tuple(symptoms().values())
    if as_json:
        print_json({"rules": rows})
        return
    render_rules(
        [[row.id, row.title, row.next.replace("{where}", "NODE")] for row in rows],
        ("symptom", "what one sees", "fix"),
        f"{len(rows)} known failures of the way to a GPU",
    )
