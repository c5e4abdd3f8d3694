"""``lab tenant compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.cli.signals import stopping
from lab.cli.tenant.options import complete_tenant
from lab.compare import compare as compare_tenants
from lab.errors import LabError
from lab.lint.document import read
from lab.report.compare_page import compare_page
from lab.session.lab import Lab
from lab.ui.compare import render_comparison

app = command_app()


@app.command(epilog="Examples: lab tenant compare team-ml team-research --workload job.yaml --html compare.html")
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
    lab = Lab.attach(name)
    documents = read(workload)

    def say(line: str) -> None:
        typer.echo(line, err=True)

    with stopping(lab.session.cancel):
        found = compare_tenants(lab, a, b, documents, rounds=rounds, timeout=timeout, at_once=at_once, say=say)
    if html is not None:
        _write(html, compare_page(found))
    if as_json:
        print_json(found)
        return

    render_comparison(found)
    if html is not None:
        say(f"wrote {html}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise LabError(f"{file} cannot be written: {error.strerror}", fix="name another file with --html") from error
