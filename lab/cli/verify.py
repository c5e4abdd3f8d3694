"""``kailab verify``: checks the invariants of a lab, or of any cluster."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.explain_rule import ExplainRule, explain_rule
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Context, Kubeconfig, Name, cluster_of, print_json, warn_about_kai
from lab.cli.signals import stopping
from lab.errors import LabError, NotProven, WaitTimeout
from lab.invariants import InvariantReport, Scope, scopes_of
from lab.invariants.verify import verify as judge
from lab.kube import Cluster
from lab.operations.abandoned import Abandoned, abandoned
from lab.operations.abandoned_removal import remove_abandoned
from lab.operations.verify import scopes_of_lab
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import take
from lab.snapshot.kai_installation import installation
from lab.text import count
from lab.ui.lab import render_abandoned
from lab.ui.verify import render_verify

app = command_app()


@dataclass(frozen=True)
class Verification:
    """A report, and what killed test runs left."""

    report: InvariantReport
    removed: tuple[Abandoned, ...]
    abandoned: tuple[Abandoned, ...]

    JSON = "*report removed abandoned"


Seconds = Annotated[
    float, typer.Option("--for", min=0, metavar="SECONDS", help="Watch for this long. Default: check once.")
]
UntilQuiet = Annotated[
    bool, typer.Option("--until-quiet", help="Watch until nothing has changed for 5 s; --for is then the limit.")
]


@app.command(epilog="Examples: kailab verify · kailab verify --for 60 · kailab verify --kubeconfig F --context C")
def verify(
    seconds: Seconds = 0.0,
    until_quiet: UntilQuiet = False,
    name: Name = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    rule: ExplainRule = None,
    as_json: AsJson = False,
) -> None:
    """Check GPU shares, reservation pods, queues, gangs and tenants by watches. Exit code 13 for a violation.

    First removes what killed test runs left in the lab.
    """
    if rule is not None:
        explain_rule(rule, as_json)
        return
    scopes, title, cancel, lab = _scopes(name, kubeconfig, context)
    for version in sorted({scope.kai_version for scope in scopes}):
        warn_about_kai(version)
    removed, unknown = _tidy(lab) if lab else ((), ())

    def settling(breaches: int) -> None:
        waits = f"{breaches} breaches are within their" if breaches > 1 else "1 breach is within its"
        typer.echo(
            f"{waits} grace period; waiting to see whether {'they clear' if breaches > 1 else 'it clears'}", err=True
        )

    with stopping(cancel):
        report = judge(scopes, seconds=seconds, until_quiet=until_quiet, settling=settling)
    error = _error(report, title)
    if as_json:
        print_json(Verification(report, removed, unknown))
        if error is not None:
            raise typer.Exit(error.exit_code)
        return
    render_abandoned(removed, unknown)
    render_verify(report, title)
    if error is not None:
        raise error


def _error(report: InvariantReport, title: str) -> LabError | None:
    """Why the verification does not end with 0."""
    if not report.ok:
        return report.error()
    if report.quiet is False:
        return WaitTimeout(f"{title} was not quiet within {report.seconds:.0f} s", fix="increase --for SECONDS")
    if report.unread:
        what = f"{title}: {count(len(report.unread), 'invariant')} could not be evaluated"
        return NotProven(what, evidence=report.unread[:8], fix="look with 'kailab status' which API server fails")
    return None


def _tidy(lab: Lab) -> tuple[tuple[Abandoned, ...], tuple[Abandoned, ...]]:
    """Remove what killed processes left; returns it, and what stays, as its process may still run."""
    return remove_abandoned(lab), abandoned(lab)


def _scopes(
    name: str | None, kubeconfig: Path | None, context: str | None
) -> tuple[tuple[Scope, ...], str, threading.Event, Lab | None]:
    """The scopes to verify, their title, the event that cancels it, and the lab. Raises NoLab and SpecError."""
    cluster = cluster_of(name, kubeconfig, context)
    if cluster is None:
        lab = Lab.attach(name)
        return scopes_of_lab(lab), f"lab {lab.spec.name}", lab.session.cancel, lab
    cluster.cancel = threading.Event()
    return (
        scopes_of(cluster, kai_version=_kai_version(cluster)),
        context or cluster.kubeconfig.name,
        cluster.cancel,
        None,
    )


def _kai_version(cluster: Cluster) -> str:
    """The version of a cluster's KAI; empty without one, and where the verification will say why nothing answers."""
    with suppress(LabError):
        kai = installation(take(cluster, kinds=("Deployment", "Pod")))
        return kai.version if kai else ""
    return ""
