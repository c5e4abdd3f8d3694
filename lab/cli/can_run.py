"""``kailab can-run``: whether KAI would run manifests on the cluster as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.completion import complete_tenant
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Context, Kubeconfig, Name, Saved, cluster_of, exclusive, print_json
from lab.errors import DoesNotRun
from lab.lint.document import ManifestDocument, read
from lab.operations.can_run import CanRun, judge
from lab.operations.can_run import can_run as judge_now
from lab.operations.explain import load
from lab.session.lab import Lab
from lab.ui.can_run import render_can_run

app = command_app()

Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Of manifests that name none.")]
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", help="A tenant with its own KAI. Default: the lab's cluster.", autocompletion=complete_tenant
    ),
]


@app.command(epilog="Examples: kailab can-run job.yaml · kailab can-run job.yaml --kubeconfig FILE --context NAME")
def can_run(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML files.")],
    namespace: Namespace = "default",
    tenant: Tenant = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    snapshot: Saved = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Say whether KAI would run workloads now, after which evictions, or what must change; applies nothing.

    Exit code 0 if all of them run, 17 if one does not.
    """
    documents = [document for file in files for document in read(file)]
    if snapshot is not None:
        others = {"--tenant": tenant, "--name": name, "--kubeconfig": kubeconfig, "--context": context}
        exclusive({"--snapshot": snapshot}, others)
        result = judge(load(snapshot).host, documents, namespace)
    else:
        result = _now(documents, namespace, tenant, kubeconfig, context, name)
    print_json(result) if as_json else render_can_run(result)
    if not result.runs:
        raise typer.Exit(DoesNotRun.exit_code)


def _now(
    documents: list[ManifestDocument],
    namespace: str,
    tenant: str | None,
    kubeconfig: Path | None,
    context: str | None,
    name: str | None,
) -> CanRun:
    """Read the cluster that the options name, and judge."""
    cluster = cluster_of(name, kubeconfig, context, tenant)
    if cluster is None:
        lab = Lab.attach(name)
        cluster = lab.tenant(tenant) if tenant else lab.cluster
    return judge_now(cluster, documents, namespace)
