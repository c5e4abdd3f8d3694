"""``lab lint``: reports what will go wrong with manifests before they are applied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, Settings, print_json, spec_of
from lab.config import LabSpec
from lab.errors import NoLab, SpecError
from lab.kai import line_of
from lab.lint import RULES, LintContext, lint_files
from lab.lint.context import lint_context
from lab.session.session import Session, name_of
from lab.ui.findings import render_by_file
from lab.ui.text_writer import render_table

app = command_app()


@app.command(epilog="Examples: lab lint pod.yaml · lab lint manifests/ --kai 0.9.8 · lab lint --rules")
def lint(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE...", help="YAML files or folders.")] = None,
    kai: Annotated[str | None, typer.Option("--kai", help="KAI version. Default: the lab's.")] = None,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="For no lab: queues and GPUs are unknown.")] = False,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="For this tenant: its own KAI version, queues and nodes.")
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules instead.")] = False,
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Report what will go wrong with manifests on this KAI version. Exit code 12 if a finding is an error.

    The lab is given by -f, --profile or --name; default: the running lab, else the lab file here or the profile demo.
    """
    if rules:
        if as_json:
            print_json({"rules": tuple(RULES.values())})
        else:
            render_table("", (), [[(rule.id, "bold"), rule.title, (rule.source, "dim")] for rule in RULES.values()])
        return
    if not files:
        raise SpecError("no file to lint", fix="lab lint FILE..., or lab lint --rules")
    if anywhere and tenant:
        raise SpecError("--anywhere and --tenant are mutually exclusive", fix="omit one of them")
    if anywhere:
        setting = LintContext(line_of(kai or LabSpec().kai.version))
    else:
        changed = [*(settings or []), *([f"kai.version={kai}"] if kai and not tenant else [])]
        inside = {"tenant": tenant, "version": kai or ""} if tenant else {}
        setting = lint_context(_spec(file, profile, changed, name), **inside)
    findings = lint_files(files, setting)
    if as_json:
        print_json({"findings": findings})
    else:
        render_by_file(findings, setting.line.version)
    if any(one.severity == "error" for one in findings):
        raise typer.Exit(12)


def _spec(file: Path | None, profile: str | None, changed: list[str], name: str | None) -> LabSpec:
    """The lab file that is described, else the running lab's, else the default one."""
    if not (file or profile or changed):
        try:
            return Session.attached(name_of(name)).spec
        except NoLab:
            if name:
                raise
    return spec_of(file, profile, changed)
