"""``kailab tenant compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.completion import complete_tenant
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json, write_text
from lab.cli.signals import stopping
from lab.compare import compare as compare_tenants
from lab.lint.document import read
from lab.report.compare_page import compare_page
from lab.session.lab import Lab
from lab.ui.compare import render_comparison

app = command_app()


@app.command(epilog="Examples: kailab tenant compare team-ml team-research --workload job.yaml --html compare.html")
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A tenant.", autocompletion=complete_tenant)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.", autocompletion=complete_tenant)],
    workload: Annotated[Path, typer.Option("--workload", "-f", metavar="FILE", help="Manifests to run in both.")],
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Runs in each tenant.")] = 1,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds until a run must have settled.")] = 180.0,
    at_once: Annotated[bool, typer.Option("--at-once", help="Run in both at once; needs dedicated nodes.")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write an HTML page.")] = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Run the same workload in two tenants and compare what their schedulers do."""
    documents = read(workload)
    lab = Lab.attach(name)

    def say(line: str) -> None:
        typer.echo(line, err=True)

    with stopping(lab.session.cancel):
        found = compare_tenants(lab, a, b, documents, rounds=rounds, timeout=timeout, at_once=at_once, say=say)
    print_json(found) if as_json else render_comparison(found)
    if html is not None:
        write_text(html, compare_page(found), "--html")
        if not as_json:
            say(f"wrote {html}")
