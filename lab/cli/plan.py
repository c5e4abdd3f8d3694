"""``kailab plan``."""

from __future__ import annotations

from typing import Annotated

import typer
import yaml

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, Require, Settings, lab_of, print_json, required
from lab.errors import Unavailable
from lab.operations.prepare import plan as plan_lab
from lab.ui.plan import render_plan

app = command_app()


@app.command(epilog="Examples: kailab plan · kailab plan --profile minimal --json")
def plan(
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    name: Name = None,
    require: Require = None,
    role: Annotated[
        bool, typer.Option("--role", help="Print Roles with the permissions that you lack in an existing cluster.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show every step, its changes to this machine, and the source of each item. Changes nothing."""
    report = plan_lab(lab_of(file, profile, settings, name), required(require))
    if role:
        typer.echo(yaml.safe_dump_all(report.preview.role if report.preview else (), sort_keys=False), nl=False)
        return
    print_json(report) if as_json else render_plan(report)
    if report.plan.missing and as_json:  # the document names them, and is the only one on stdout
        raise typer.Exit(Unavailable.exit_code)
    report.plan.refuse_missing()
