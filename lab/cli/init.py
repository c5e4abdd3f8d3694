"""``lab init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import write_text
from lab.config import init_text

app = command_app()


@app.command(epilog="Examples: lab init · lab init --profile minimal --out small.yaml")
def init(
    profile: Annotated[str, typer.Option("--profile", help="Profile to start from.")] = "demo",
    out: Annotated[Path, typer.Option("--out", help="File to create.")] = Path("lab.yaml"),
) -> None:
    """Write a lab file with every key explained."""
    write_text(out, init_text(profile), "--out", mode="x")
    typer.echo(f"wrote {out}; next: lab plan -f {out}")
