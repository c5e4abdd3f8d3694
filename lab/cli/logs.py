"""``kailab logs``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, print_json, running_lab
from lab.report.artifacts import collect_lab

app = command_app()


class CollectedLogs(TypedDict):
    """A folder, and the files that were written to it."""

    folder: Path
    files: list[Path]


@app.command(epilog="Examples: kailab logs · kailab logs --out /tmp/demo-logs --budget 60")
def logs(
    file: File = None,
    profile: Profile = None,
    name: Name = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write to.")] = None,
    budget: Annotated[float, typer.Option("--budget", help="Time limit in seconds.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Collect events, objects and logs of the lab into a folder, within a time limit."""
    lab = running_lab(file, profile, name)
    folder = out or Path(f"kailab-logs-{lab.spec.name}")
    files = collect_lab(lab, folder, budget=budget)
    data = CollectedLogs(folder=folder.absolute(), files=files)
    print_json(data) if as_json else typer.echo(f"{len(files)} files in {folder.absolute()}")
