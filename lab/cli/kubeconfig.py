"""``kailab kubeconfig``."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.completion import complete_tenant
from lab.cli.lazy import command_app
from lab.cli.options import File, Name, Profile, running_lab

app = command_app()


@app.command(epilog="Examples: kubectl --kubeconfig $(kailab kubeconfig) get pods -A · kailab kubeconfig my-vcluster")
def kubeconfig(
    tenant: Annotated[
        str | None, typer.Argument(help="A tenant. Default: the lab's own cluster.", autocompletion=complete_tenant)
    ] = None,
    file: File = None,
    profile: Profile = None,
    name: Name = None,
) -> None:
    """Print the path of a kubeconfig of the lab."""
    lab = running_lab(file, profile, name)
    cluster = lab.tenant(tenant) if tenant else lab.cluster
    typer.echo(cluster.kubeconfig)
