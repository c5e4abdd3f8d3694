"""``kailab tenant remove``."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, Ui, print_json
from lab.cli.signals import stopping
from lab.cli.tenant.options import AgreedForAll, TenantName, asker, grace_of
from lab.errors import Leftovers
from lab.operations.tenant.remove import remove as remove_tenant
from lab.session.lab import Lab
from lab.ui import attach
from lab.ui.tenants import render_removed

app = command_app()


@app.command(epilog="Examples: kailab tenant remove team-b · kailab tenant remove team-b --grace own")
def remove(
    tenant: TenantName,
    grace: Annotated[
        str, typer.Option("--grace", metavar="own|SECONDS", help="Grace period of its pods; own: each pod's own.")
    ] = "1",
    check_gpus: Annotated[
        bool, typer.Option("--check-gpus", "--canary", help="Verify with pods that its GPUs are free.")
    ] = False,
    name: Name = None,
    yes: AgreedForAll = False,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Remove a tenant with everything in it, and verify that nothing is left. Exit code 7 for leftovers."""
    seconds = grace_of(grace)
    lab = Lab.attach(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = remove_tenant(lab, tenant, grace=seconds, check_gpus=check_gpus, ask=asker(yes))
    if as_json:
        print_json(report)
        if report.removal.left:
            raise typer.Exit(Leftovers.exit_code)
    else:
        render_removed(report)
        report.removal.raise_left()
    if not report.removal.ok:
        raise typer.Exit(1)
