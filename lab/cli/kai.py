"""``kailab kai``: KAI's version lines, and the version of the lab's own KAI."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.completion import complete_kai
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Context, Kubeconfig, Name, Ui, cluster_of, print_json
from lab.cli.rehearsal import print_rehearsal, print_upgrade
from lab.cli.signals import stopping
from lab.kai import lines
from lab.operations.kai.advise import advise as advice
from lab.operations.kai.upgrade import roll_back
from lab.operations.kai.upgrade import upgrade as rehearse
from lab.session.lab import Lab
from lab.ui import attach
from lab.ui.kai_advice import render_kai_advice
from lab.ui.kai_versions import render_kai_versions

app = command_app(no_args_is_help=True)


@app.command(epilog="Examples: kailab kai versions · kailab kai versions --json")
def versions(as_json: AsJson = False) -> None:
    """List the version lines: releases, support, Kubernetes, queues, features and known defects."""
    known = tuple(lines().values())
    print_json(known) if as_json else render_kai_versions(known)


@app.command(epilog="Examples: kailab kai advise · kailab kai advise --kubeconfig FILE --context CONTEXT --json")
def advise(name: Name = None, kubeconfig: Kubeconfig = None, context: Context = None, as_json: AsJson = False) -> None:
    """List the known defects, their cures and the support of the KAI that runs; changes nothing."""
    found = advice(cluster_of(name, kubeconfig, context) or Lab.attach(name).cluster)
    print_json(found) if as_json else render_kai_advice(found)


@app.command(epilog="Examples: kailab kai upgrade 0.17.0 · kailab kai upgrade 0.17.0 --path 0.12.23,0.16.8 --no-suites")
def upgrade(
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="The KAI version to rehearse.", autocompletion=complete_kai)
    ],
    path: Annotated[
        str | None,
        typer.Option(
            "--path", metavar="V1,V2,...", help="Versions to rehearse before it, in order.", autocompletion=complete_kai
        ),
    ] = None,
    suites: Annotated[
        bool, typer.Option("--suites/--no-suites", help="Run the suites of KAI after the last version.")
    ] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Keep a version even if it fails.")] = False,
    name: Name = None,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Rehearse another version of the lab's own KAI under load, watched by the invariants; rolls back if it fails."""
    lab = Lab.attach(name)
    before = [word.strip() for word in (path or "").split(",") if word.strip()]
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = rehearse(lab, [*before, version], suites=suites, keep=keep)
    print_upgrade(report, as_json, lab.spec.name)


@app.command(epilog="Examples: kailab kai rollback · kailab kai rollback --to 0.16.8")
def rollback(
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="Default: the previous version.", autocompletion=complete_kai),
    ] = None,
    name: Name = None,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Return the lab's own KAI to the previous version while pods keep running, and time it."""
    lab = Lab.attach(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = roll_back(lab, to)
    print_rehearsal(report, as_json, lab.spec.name)
