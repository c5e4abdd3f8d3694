"""``lab explain``: why a pod does not run."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Context, Kubeconfig, Name, cluster_of, print_json
from lab.errors import SpecError
from lab.explain import all_rules, explained, overview_of
from lab.operations.explain import read, read_cluster
from lab.session.lab import Lab
from lab.ui.explain import render_explained, render_overview
from lab.ui.text_writer import Cell, render_table

app = command_app()

Pod = Annotated[
    str | None, typer.Argument(metavar="[NAMESPACE/]POD", help="A pod, or a workload whose pods are missing.")
]
Namespace = Annotated[str | None, typer.Option("-n", "--namespace", help="Its namespace. Default: default.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Its tenant. Default: the lab's own cluster.")]
All = Annotated[bool, typer.Option("--all", help="An overview of the whole lab and all problems in it.")]
Rules = Annotated[bool, typer.Option("--rules", help="List all rules; needs no cluster.")]


@app.command(epilog="Examples: lab explain team/pod · lab explain pod -n ns --tenant my-vcluster · lab explain --all")
def explain(
    pod: Pod = None,
    namespace: Namespace = None,
    tenant: Tenant = None,
    all_: All = False,
    rules: Rules = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a pod does not run, the root cause first. Exit code 1 if no reason is found."""
    if rules:
        _rules(as_json)
        return
    if all_ == bool(pod):
        raise SpecError(
            "a pod and --all are mutually exclusive" if pod else "no pod named",
            fix="lab explain NAMESPACE/POD, or lab explain --all",
        )
    if tenant and kubeconfig is not None:
        raise SpecError("--tenant and --kubeconfig are mutually exclusive", fix="omit one of them")
    cluster = cluster_of(None if kubeconfig else name, kubeconfig, context)
    snapshot = read_cluster(cluster) if cluster else read(Lab.attach(name), tenant or "")
    if all_:
        overview = overview_of(snapshot)
        print_json(overview) if as_json else render_overview(overview)
        return
    space, _, short = (pod or "").rpartition("/")
    found = explained(snapshot, short, space or namespace or "default", tenant or "")
    print_json(found) if as_json else render_explained(found)
    if not found.settled:
        raise typer.Exit(1)


def _rules(as_json: bool) -> None:
    rows = all_rules()
    if as_json:
        print_json({"rules": rows})
        return
    cells: list[list[Cell]] = [[rule.id, rule.title, " ".join(rule.stages), (rule.source, "dim")] for rule in rows]
    headings = ("rule", "situation", "stages", "source")
    render_table(f"{len(rows)} rules", headings, cells, note="in the order of a pod's life")
