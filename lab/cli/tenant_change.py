"""``lab tenant upgrade``, ``rollback`` and ``compare``: what one does to choose between versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.options import AsJson, Name, Ui, print_json
from lab.cli.tenant_options import TenantName, complete_tenant

if TYPE_CHECKING:
    from lab.operations.tenant.rehearse import Rehearsal


def upgrade(
    tenant: TenantName,
    kai: Annotated[str, typer.Option("--kai", metavar="VERSION", help="The KAI version to rehearse.")],
    vcluster: Annotated[
        str | None, typer.Option("--vcluster", metavar="VERSION", help="Another vCluster version too, first.")
    ] = None,
    suites: Annotated[bool, typer.Option("--suites/--no-suites", help="Run the suites in it afterwards.")] = True,
    keep: Annotated[bool, typer.Option("--keep", help="Stay on the new version whatever the suites say.")] = False,
    name: Name = None,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Rehearse another KAI version in a tenant: snapshot, upgrade, suites, verdict; back to before when it is red."""
    from lab.api import Lab
    from lab.cli.signals import stopping
    from lab.operations.tenant.upgrade import upgrade as rehearse
    from lab.ui import attach

    lab = Lab.attach(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = rehearse(lab, tenant, kai, vcluster=vcluster or "", suites=suites, keep=keep)
    _tell(report, as_json)


def rollback(
    tenant: TenantName,
    to: Annotated[str | None, typer.Option("--to", metavar="VERSION", help="Default: the version before.")] = None,
    name: Name = None,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Bring the KAI of a tenant back to the version before; running pods and fractions stay, and it is timed."""
    from lab.api import Lab
    from lab.cli.signals import stopping
    from lab.operations.tenant.upgrade import roll_back
    from lab.ui import attach

    lab = Lab.attach(name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = roll_back(lab, tenant, to)
    _tell(report, as_json)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A tenant.", autocompletion=complete_tenant)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.", autocompletion=complete_tenant)],
    workload: Annotated[Path, typer.Option("--workload", "-f", metavar="FILE", help="Manifests that both get.")],
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How often in each.")] = 1,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds until a run must rest.")] = 180.0,
    at_once: Annotated[bool, typer.Option("--at-once", help="Both at once; needs nodes of their own.")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write a page.")] = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Run the same workload in two tenants and show what their schedulers made of it, side by side."""
    from lab.api import Lab
    from lab.cli.signals import stopping
    from lab.compare import compare as compare_tenants
    from lab.lint.document import read

    lab = Lab.attach(name)
    documents = read(workload)

    def say(line: str) -> None:
        typer.echo(line, err=True)

    with stopping(lab.session.cancel):
        found = compare_tenants(lab, a, b, documents, rounds=rounds, timeout=timeout, at_once=at_once, say=say)
    if html is not None:
        from lab.report.compare_page import compare_page

        _write(html, compare_page(found))
    if as_json:
        print_json(found.as_json())
        return
    from rich.console import Console

    from lab.ui.compare import render_comparison

    render_comparison(found, Console(highlight=False, emoji=False, markup=False))
    if html is not None:
        say(f"wrote {html}")


def _write(file: Path, text: str) -> None:
    from lab.errors import LabError

    try:
        file.write_text(text)
    except OSError as error:
        raise LabError(f"{file} cannot be written: {error.strerror}", fix="name another file with --html") from error


def _tell(report: Rehearsal, as_json: bool) -> None:
    """Print a rehearsal; exit code 1 for a red one."""
    if as_json:
        print_json(report.as_json())
    else:
        from lab.ui.tenant_rehearsal import render_rehearsal

        render_rehearsal(report)
    if not (report.green or report.kept):
        raise typer.Exit(1)
