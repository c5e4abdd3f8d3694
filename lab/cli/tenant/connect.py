"""``kailab tenant connect``."""

from __future__ import annotations

import shlex
import shutil
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import Name
from lab.cli.tenant.options import TenantName
from lab.operations.tenant.status import kubeconfig
from lab.session.lab import Lab
from lab.tools.process import replace_process

app = command_app()


@app.command(
    epilog='Examples: kailab tenant connect team-ml -- kubectl get pods -A · eval "$(kailab tenant connect team-ml)"'
)
def connect(
    tenant: TenantName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Command to run with KUBECONFIG set.")
    ] = None,
    name: Name = None,
) -> None:
    """Run a command with a tenant's private kubeconfig; yours is not changed. Without a command, print the setting."""
    lab = Lab.attach(name)
    path = kubeconfig(lab, tenant)
    if not command:
        typer.echo(f"export KUBECONFIG={shlex.quote(str(path))}")
        typer.echo(f"# example: kubectl get pods -A    (or: kailab tenant connect {tenant} -- kubectl get pods -A)")
        return
    if command[0] in ("kubectl", "helm") and shutil.which(command[0]) is None:
        command = [str(lab.tool(command[0])), *command[1:]]
    replace_process(command, {"KUBECONFIG": str(path)})
