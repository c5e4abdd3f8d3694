"""``lab status``."""

from __future__ import annotations

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.operations.status import status as lab_status
from lab.session.lab import Lab
from lab.ui.lab import render_status

app = command_app()


@app.command(epilog="Examples: lab status · lab status --name demo --json")
def status(name: Name = None, as_json: AsJson = False) -> None:
    """Show the state of each step, the tenants and the kubeconfigs. Exit code 5 if a step is not ready."""
    report = lab_status(Lab.attach(name))
    print_json(report) if as_json else render_status(report)
    if not report.ok:
        raise typer.Exit(5)
