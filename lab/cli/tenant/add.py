"""``kailab tenant add``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.completion import complete_kai, complete_workers
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, Ui, print_json
from lab.cli.signals import stopping
from lab.cli.tenant.options import AgreedForAll, asker, nodes_of
from lab.config.added_tenants import tenant_request
from lab.operations.tenant.add import add as add_tenant
from lab.session.lab import Lab
from lab.ui import attach
from lab.ui.tenants import render_added

app = command_app()


@app.command(
    epilog="Examples: kailab tenant add team-b"
    " · kailab tenant add team-ml --mode own-kai --kai 0.9.3 --kubernetes 1.33.13"
    " · kailab tenant add team-x --file team-x.yaml --nodes worker2,worker3"
)
def add(
    tenant: Annotated[str, typer.Argument(metavar="NAME", help="Its name, unique in the lab.")],
    mode: Annotated[str | None, typer.Option("--mode", help="host-kai, own-kai or default.")] = None,
    kai: Annotated[
        str | None,
        typer.Option("--kai", metavar="VERSION", help="own-kai: the KAI inside.", autocompletion=complete_kai),
    ] = None,
    kubernetes: Annotated[
        str | None, typer.Option("--kubernetes", metavar="VERSION", help="Kubernetes inside, such as 1.33.13.")
    ] = None,
    vcluster: Annotated[str | None, typer.Option("--vcluster", metavar="VERSION", help="vCluster's version.")] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            "--nodes",
            metavar="N|NAME,...",
            help="Dedicated workers: how many, or which.",
            autocompletion=complete_workers,
        ),
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=0, help="Quota of whole GPUs.")] = None,
    values: Annotated[
        Path | None, typer.Option("--values", metavar="FILE", help="Your own vcluster.yaml, merged last.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="The tenant as in tenants[] of a lab file.")
    ] = None,
    name: Name = None,
    yes: AgreedForAll = False,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Add a tenant to the running lab, or finish what an earlier add began. Invalid requests change nothing."""
    options = {
        "mode": mode or ("own-kai" if kai and not file else None),
        "kaiVersion": kai,
        "kubernetes": kubernetes,
        "vcluster": vcluster,
        "nodes": nodes_of(nodes),
        "gpus": gpus,
    }
    asked = tenant_request(tenant, options, file, values)
    lab = Lab.attach(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = add_tenant(lab, asked, asker(yes))
    print_json(report) if as_json else render_added(report)
