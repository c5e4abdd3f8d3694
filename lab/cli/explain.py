"""``lab explain``: why a pod does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.errors import SpecError
from lab.explain import LabSnapshot, all_rules, explained, overview_of
from lab.operations.explain import open_cluster, read
from lab.session.lab import Lab
from lab.ui.explain import render_explained, render_picture
from lab.ui.findings import render_rules

app = command_app()

Pod = Annotated[
    str | None, typer.Argument(metavar="[NAMESPACE/]POD", help="A pod, or a workload whose pods are missing.")
]
Namespace = Annotated[str | None, typer.Option("-n", "--namespace", help="Its namespace. Default: default.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="The tenant it is in; without it, the lab's own cluster.")]
All = Annotated[bool, typer.Option("--all", help="A picture of the whole lab: all that is not well.")]
Rules = Annotated[bool, typer.Option("--rules", help="List all rules; needs no cluster.")]
Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Any cluster instead of a lab; only read.")
]
Context = Annotated[str | None, typer.Option("--context", help="Context in that file. Default: its current one.")]


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
    """Say why a pod does not run, the most fundamental reason first. Exit code 1 when no reason is found."""
    if rules:
        rows = all_rules()
        if as_json:
            print_json({"rules": rows})
            return
        render_rules(
            [[rule.id, rule.title, " ".join(rule.stages), (rule.source, "dim")] for rule in rows],
            ("rule", "situation", "asked when", "source"),
            f"{len(rows)} rules",
            "in the order of a pod's life",
        )
        return
    _check(pod, tenant, all_, kubeconfig, context)
    worlds = _read(name, tenant, kubeconfig, context)
    if all_:
        seen = overview_of(worlds)
        print_json(seen) if as_json else render_picture(seen)
        return

    space, _, short = (pod or "").rpartition("/")
    told = explained(worlds, short, space or namespace or "default", tenant or "")
    print_json(told) if as_json else render_explained(told)
    if not told.settled:
        raise typer.Exit(1)


def _check(pod: str | None, tenant: str | None, all_: bool, kubeconfig: Path | None, context: str | None) -> None:
    """Refuse what does not go together. Raises SpecError."""
    if all_ == bool(pod):
        raise SpecError(
            "name a pod, or --all" if not pod else "a pod and --all do not go together",
            fix="lab explain NAMESPACE/POD, or lab explain --all",
        )
    if context and kubeconfig is None:
        raise SpecError("--context needs --kubeconfig", fix="name the file that has the context")
    if tenant and kubeconfig is not None:
        raise SpecError("--tenant is for labs, --kubeconfig for any cluster", fix="leave one of them out")


def _read(name: str | None, tenant: str | None, kubeconfig: Path | None, context: str | None) -> LabSnapshot:
    if kubeconfig is not None:
        return open_cluster(kubeconfig, context)

    return read(Lab.attach(name), tenant or "")
