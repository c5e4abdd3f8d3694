"""``kailab status``."""

from __future__ import annotations

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, print_json, running_lab
from lab.operations.status import status as lab_status
from lab.ui.lab import render_status

app = command_app()


@app.command(epilog="Examples: kailab status · kailab status --name demo --json")
def status(file: File = None, profile: Profile = None, name: Name = None, as_json: AsJson = False) -> None:
    """Show the state of each step, the tenants and the kubeconfigs. Exit code 5 if a step is not ready."""
    report = lab_status(running_lab(file, profile, name))
    print_json(report) if as_json else render_status(report)
    if not report.ok:
        raise typer.Exit(5)
