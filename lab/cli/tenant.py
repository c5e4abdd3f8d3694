"""``lab tenant``: add, remove, list, status, connect; upgrade, rollback and compare are in ``tenant_change``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.options import AsJson, Name, Ui, print_json
from lab.cli.tenant_change import compare, rollback, upgrade
from lab.cli.tenant_options import TenantName, asker, complete_tenant, grace_of, nodes_of

if TYPE_CHECKING:
    from lab.api import Lab

tenant_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Tenants (vClusters) of a lab that runs: add and remove them, see and enter them, change the KAI inside.",
)
Agreed = Annotated[bool, typer.Option("--yes", "-y", help="Agree to what changes for everybody: KAI on the host.")]


@tenant_app.command(
    epilog="Examples: lab tenant add team-b · lab tenant add team-ml --mode own-kai --kai 0.9.3 --kubernetes 1.33.13"
    " · lab tenant add team-x --file team-x.yaml --nodes worker2,worker3"
)
def add(
    tenant: Annotated[str, typer.Argument(metavar="NAME", help="Its name; unique in the lab.")],
    mode: Annotated[str | None, typer.Option("--mode", help="host-kai, own-kai or default.")] = None,
    kai: Annotated[str | None, typer.Option("--kai", metavar="VERSION", help="own-kai: the KAI inside.")] = None,
    kubernetes: Annotated[
        str | None, typer.Option("--kubernetes", metavar="VERSION", help="Kubernetes inside, such as 1.33.13.")
    ] = None,
    vcluster: Annotated[str | None, typer.Option("--vcluster", metavar="VERSION", help="vCluster's version.")] = None,
    nodes: Annotated[
        str | None, typer.Option("--nodes", metavar="N|NAME,...", help="Workers for it alone: how many, or which.")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", min=0, help="Most whole GPUs its pods may ask for.")] = None,
    values: Annotated[
        Path | None, typer.Option("--values", metavar="FILE", help="A vcluster.yaml of your own, merged last.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="The tenant as in tenants[] of a lab file.")
    ] = None,
    name: Name = None,
    yes: Agreed = False,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Add a tenant to the lab that runs, or finish what an earlier add began. Refused before anything is touched."""
    from lab.cli.signals import stopping
    from lab.config.added_tenants import tenant_request
    from lab.operations.tenant.add import add as add_tenant
    from lab.ui import attach
    from lab.ui.tenants import render_added

    options = {
        "mode": mode or ("own-kai" if kai and not file else None),
        "kaiVersion": kai,
        "kubernetes": kubernetes,
        "vcluster": vcluster,
        "nodes": nodes_of(nodes),
        "gpus": gpus,
    }
    asked = tenant_request(tenant, options, file, values)
    lab = _lab(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = add_tenant(lab, asked, asker(yes))
    print_json(report.as_json()) if as_json else render_added(report)


@tenant_app.command(
    epilog="Examples: lab tenant remove team-b · lab tenant remove team-b --grace own · lab tenant remove team-b --json"
)
def remove(
    tenant: TenantName,
    grace: Annotated[
        str, typer.Option("--grace", metavar="own|SECONDS", help="Time its pods get to end; own: each its own.")
    ] = "1",
    canary: Annotated[bool, typer.Option("--canary", help="Prove by a pod that its GPUs are free.")] = False,
    name: Name = None,
    yes: Agreed = False,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Take a tenant away with all that is in it, and prove it. Exit code 7 when something of it is left."""
    from lab.cli.signals import stopping
    from lab.errors import Leftovers
    from lab.operations.tenant.remove import remove as remove_tenant
    from lab.ui import attach
    from lab.ui.tenants import render_removed

    lab = _lab(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = remove_tenant(lab, tenant, grace=grace_of(grace), canary=canary, ask=asker(yes))
    if as_json:
        print_json(report.as_json())
        if report.removal.left:
            raise typer.Exit(Leftovers.exit_code)
    else:
        render_removed(report)
        report.removal.raise_left()
    if not report.removal.ok:
        raise typer.Exit(1)


@tenant_app.command("list", epilog="Examples: lab tenant list · lab tenant list --name demo --json")
def list_(name: Name = None, as_json: AsJson = False) -> None:
    """List the tenants: mode, versions, own nodes, GPUs, pods, whether each answers. One added later has a '+'."""
    from lab.operations.tenant.status import states
    from lab.ui.tenants import render_tenants

    lab = _lab(name)
    found = states(lab)
    print_json([one.as_json() for one in found]) if as_json else render_tenants(found, lab.spec.name)


@tenant_app.command(epilog="Examples: lab tenant status · lab tenant status team-ml --json")
def status(
    tenant: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Default: all of them.", autocompletion=complete_tenant)
    ] = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """How tenants stand, step by step. Exit code 5 when something is not ready."""
    from lab.operations.tenant.status import status as status_of
    from lab.ui.tenants import render_tenant_status

    lab = _lab(name)
    found = status_of(lab, [tenant] if tenant else [])
    print_json([one.as_json() for one in found]) if as_json else render_tenant_status(found, lab.spec.name)
    if not all(one.ok for one in found):
        raise typer.Exit(5)


@tenant_app.command(
    epilog='Examples: lab tenant connect team-ml -- kubectl get pods -A · eval "$(lab tenant connect team-ml)"'
)
def connect(
    tenant: TenantName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Run with KUBECONFIG set to the tenant's.")
    ] = None,
    name: Name = None,
) -> None:
    """Enter a tenant by its private kubeconfig; yours is not touched. Without a command, print what sets KUBECONFIG."""
    import shlex
    import shutil

    from lab.operations.tenant.status import kubeconfig
    from lab.tools.exec import hand_over

    lab = _lab(name)
    path = kubeconfig(lab, tenant)
    if not command:
        typer.echo(f"export KUBECONFIG={shlex.quote(str(path))}")
        typer.echo(
            f"# then, for example: kubectl get pods -A    (or: lab tenant connect {tenant} -- kubectl get pods -A)"
        )
        return
    if command[0] in ("kubectl", "helm") and shutil.which(command[0]) is None:
        command = [str(lab.tool(command[0])), *command[1:]]
    hand_over(command, {"KUBECONFIG": str(path)})


tenant_app.command(
    epilog="Examples: lab tenant upgrade team-ml --kai 0.12.23 · lab tenant upgrade team-ml --kai 0.16.8 --no-suites"
)(upgrade)
tenant_app.command(epilog="Examples: lab tenant rollback team-ml · lab tenant rollback team-ml --to 0.9.3")(rollback)
tenant_app.command(epilog="Examples: lab tenant compare team-ml team-research --workload job.yaml --html compare.html")(
    compare
)


def _lab(name: str | None) -> Lab:
    from lab.api import Lab

    return Lab.attach(name)
