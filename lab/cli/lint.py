"""``lab lint``: what will go wrong with manifests, before they are applied."""

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
from lab.lint.setting import setting_of
from lab.session.session import Session, name_of
from lab.ui.findings import render_by_file, render_rules

app = command_app()


@app.command(epilog="Examples: lab lint pod.yaml · lab lint manifests/ --kai 0.9.8 · lab lint --rules")
def lint(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE...", help="YAML files, or folders.")] = None,
    kai: Annotated[str | None, typer.Option("--kai", help="For this KAI version instead of the lab's.")] = None,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="Not for a lab: queues and GPUs are not known.")] = False,
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
    """Say what will go wrong with manifests on this KAI version. Exit code 12 when there is an error among it.

    Without -f, --profile or --name the lab that is up counts, else the lab file here or the profile demo.
    """
    if rules:
        rows = RULES.values()
        if as_json:
            print_json({"rules": tuple(rows)})
        else:
            render_rules([[(rule.id, "bold"), rule.title, (rule.source, "dim")] for rule in rows])
        return
    if not files:
        raise SpecError("no file to lint", fix="lab lint FILE..., or lab lint --rules")
    if anywhere and tenant:
        raise SpecError("--anywhere knows no tenants", fix="leave --anywhere or --tenant out")
    setting = _setting(file, profile, settings, name, kai, anywhere, tenant)
    findings = lint_files(files, setting)
    if as_json:
        print_json({"findings": findings})
    else:
        render_by_file(findings, setting.line.version)
    if any(one.severity == "error" for one in findings):
        raise typer.Exit(12)


def _setting(
    file: Path | None,
    profile: str | None,
    settings: list[str] | None,
    name: str | None,
    kai: str | None,
    anywhere: bool,
    tenant: str | None,
) -> LintContext:
    changed = [*(settings or []), *([f"kai.version={kai}"] if kai and not tenant else [])]
    inside = {"tenant": tenant, "version": kai or ""} if tenant else {}
    if anywhere:
        return LintContext(line_of(kai or LabSpec().kai.version))
    if not (file or profile or changed):
        try:
            return setting_of(Session.attached(name_of(name)).spec, **inside)
        except NoLab:
            if name:
                raise
    return setting_of(spec_of(file, profile, changed), **inside)
