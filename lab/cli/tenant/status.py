"""``kailab tenant status``."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.completion import complete_tenant
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.operations.tenant.status import status as status_of
from lab.session.lab import Lab
from lab.ui.tenants import render_tenant_status

app = command_app()


@app.command(epilog="Examples: kailab tenant status · kailab tenant status team-ml --json")
def status(
    tenant: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Default: all of them.", autocompletion=complete_tenant)
    ] = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of tenants, step by step. Exit code 5 if a step is not ready."""
    lab = Lab.attach(name)
    found = status_of(lab, [tenant] if tenant else [])
    print_json(found) if as_json else render_tenant_status(found, lab.spec.name)
    if not all(one.ok for one in found):
        raise typer.Exit(5)
