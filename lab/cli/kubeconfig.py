"""``lab kubeconfig``."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import Name
from lab.session.lab import Lab

app = command_app()


@app.command(epilog="Examples: kubectl --kubeconfig $(lab kubeconfig) get pods -A · lab kubeconfig my-vcluster")
def kubeconfig(
    tenant: Annotated[str | None, typer.Argument(help="A tenant. Default: the lab's own cluster.")] = None,
    name: Name = None,
) -> None:
    """Print the path of a kubeconfig of the lab."""
    lab = Lab.attach(name)
    cluster = lab.tenant(tenant) if tenant else lab.cluster
    typer.echo(cluster.kubeconfig)
