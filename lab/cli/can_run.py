"""``lab can-run``: whether KAI would run manifests on the cluster as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Context, Kubeconfig, Name, cluster_of, print_json
from lab.errors import DoesNotRun, SpecError
from lab.operations.can_run import can_run as judge
from lab.session.lab import Lab
from lab.ui.can_run import render_can_run

app = command_app()

Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Of manifests that name none.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="A tenant with its own KAI. Default: the lab's cluster.")]


@app.command(epilog="Examples: lab can-run job.yaml · lab can-run job.yaml --kubeconfig FILE --context NAME --json")
def can_run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML files.")],
    namespace: Namespace = "default",
    tenant: Tenant = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Say whether KAI would run workloads now, after which evictions, or what must change; applies nothing.

    Exit code 0 if all of them run, 17 if one does not.
    """
    if tenant and kubeconfig is not None:
        raise SpecError("--tenant and --kubeconfig are mutually exclusive", fix="omit one of them")
    cluster = cluster_of(None if kubeconfig else name, kubeconfig, context)
    if cluster is None:
        lab = Lab.attach(name)
        cluster = lab.tenant(tenant) if tenant else lab.cluster
    result = judge(cluster, files, namespace)
    print_json(result) if as_json else render_can_run(result)
    if not result.runs:
        raise typer.Exit(DoesNotRun.exit_code)
