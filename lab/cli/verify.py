"""``lab verify``: do the invariants hold on a lab, or on any cluster."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.cli.signals import stopping
from lab.errors import InvariantBroken, SpecError, WaitTimeout
from lab.invariants import Scope, scopes_of
from lab.invariants.verify import verify as judge
from lab.kube import Cluster
from lab.operations.verify import scopes_of_lab
from lab.session.lab import Lab
from lab.ui.verify import render_verify

app = command_app()

Seconds = Annotated[
    float, typer.Option("--for", min=0, metavar="SECONDS", help="Watch for so long. Default: look once.")
]
UntilQuiet = Annotated[
    bool, typer.Option("--until-quiet", help="Watch until nothing has changed for 5 s; --for is then the limit.")
]
Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Any cluster instead of a lab; it is only read.")]
Context = Annotated[str | None, typer.Option("--context", help="Context in --kubeconfig. Default: its current one.")]


@app.command(epilog="Examples: lab verify · lab verify --for 60 · lab verify --kubeconfig F --context C --json")
def verify(
    seconds: Seconds = 0.0,
    until_quiet: UntilQuiet = False,
    name: Name = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_json: AsJson = False,
) -> None:
    """Check GPU shares, reservation pods, queues, gangs and tenants by watches. Exit code 13 when one is broken."""
    scopes, title, cancel = _scopes(name, kubeconfig, context)

    def settling(count: int) -> None:
        typer.echo(f"wrong now and may pass: {count}; looking again until their time is over", err=True)

    with stopping(cancel):
        report = judge(scopes, seconds=seconds, until_quiet=until_quiet, settling=settling)
    if as_json:
        print_json(report)
        if not report.ok:
            raise typer.Exit(InvariantBroken.exit_code)
        if report.quiet is False:
            raise typer.Exit(WaitTimeout.exit_code)
        return
    render_verify(report, title)
    if not report.ok:
        raise report.error()
    if report.quiet is False:
        raise WaitTimeout(
            f"{title} was not quiet within {report.seconds:.0f} s", fix="give it longer: --until-quiet --for SECONDS"
        )


def _scopes(
    name: str | None, kubeconfig: Path | None, context: str | None
) -> tuple[tuple[Scope, ...], str, threading.Event]:
    """What to judge, what to call it, and what stops it.

    Raises:
        NoLab: there is no such lab.
        SpecError: the options contradict each other, or there is no such file.
    """
    if kubeconfig is None:
        if context is not None:
            raise SpecError("--context needs --kubeconfig", fix="name the file: --kubeconfig FILE --context NAME")

        lab = Lab.attach(name)
        return scopes_of_lab(lab), f"lab {lab.spec.name}", lab.session.cancel
    if name is not None:
        raise SpecError("--name and --kubeconfig are two clusters", fix="leave one of them out")
    if not kubeconfig.expanduser().is_file():
        raise SpecError(f"--kubeconfig: there is no file {kubeconfig}", fix="name a kubeconfig file")

    cluster = Cluster(kubeconfig.expanduser(), context)
    cluster.cancel = threading.Event()
    return scopes_of(cluster), context or kubeconfig.name, cluster.cancel
