"""``kailab report``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.report.lab_report import report_of
from lab.report.page import write_page
from lab.session.lab import Lab

app = command_app()


class Written(TypedDict):
    """The page, what it lacks, and when its last run of the suites began."""

    file: Path
    notes: tuple[str, ...]
    suite: str | None


@app.command(epilog="Examples: kailab report · kailab report --out demo.html --open")
def report(
    name: Name = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write. Default: kailab-report-NAME.html here.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write an HTML page: the lab's facts and GPUs, how it came up, the last run of its suites."""
    lab = Lab.attach(name)
    now = report_of(lab)
    path = write_page(out or Path(f"kailab-report-{now.lab}.html"), now)
    if as_json:
        print_json(Written(file=path, notes=now.notes, suite=now.suite.began if now.suite else None))
    else:
        for note in now.notes:
            typer.echo(f"warning: {note}", err=True)
        typer.echo(path)
    if show:
        webbrowser.open(path.as_uri())
