"""``kailab tenant upgrade``."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.completion import complete_kai
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, Ui
from lab.cli.rehearsal import print_rehearsal
from lab.cli.signals import stopping
from lab.cli.tenant.options import TenantName
from lab.operations.tenant.upgrade import upgrade as rehearse
from lab.session.lab import Lab
from lab.ui import attach

app = command_app()


@app.command(epilog="Examples: kailab tenant upgrade team-ml --kai 0.12.23 · … --kai 0.16.8 --no-suites")
def upgrade(
    tenant: TenantName,
    kai: Annotated[
        str, typer.Option("--kai", metavar="VERSION", help="The KAI version to rehearse.", autocompletion=complete_kai)
    ],
    vcluster: Annotated[
        str | None, typer.Option("--vcluster", metavar="VERSION", help="First change the vCluster version.")
    ] = None,
    suites: Annotated[
        bool, typer.Option("--suites/--no-suites", help="Run the suites in the tenant afterwards.")
    ] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the new version even if the suites fail.")] = False,
    name: Name = None,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Rehearse another KAI version in a tenant: snapshot, upgrade, suites; rolls back if it fails."""
    lab = Lab.attach(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = rehearse(lab, tenant, kai, vcluster=vcluster or "", suites=suites, keep=keep)
    print_rehearsal(report, as_json)
