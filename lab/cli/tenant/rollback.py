"""``kailab tenant rollback``."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.completion import complete_kai
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, Ui
from lab.cli.rehearsal import print_rehearsal
from lab.cli.signals import stopping
from lab.cli.tenant.options import TenantName
from lab.operations.tenant.upgrade import roll_back
from lab.session.lab import Lab
from lab.ui import attach

app = command_app()


@app.command(epilog="Examples: kailab tenant rollback team-ml · kailab tenant rollback team-ml --to 0.9.3")
def rollback(
    tenant: TenantName,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="Default: the previous version.", autocompletion=complete_kai),
    ] = None,
    name: Name = None,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Return the KAI of a tenant to the previous version while pods keep running, and time it."""
    lab = Lab.attach(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = roll_back(lab, tenant, to)
    print_rehearsal(report, as_json)
