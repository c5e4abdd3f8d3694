"""``lab init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.config import init_text
from lab.errors import SpecError

app = command_app()


@app.command(epilog="Examples: lab init · lab init --profile minimal --out small.yaml")
def init(
    profile: Annotated[str, typer.Option("--profile", help="Which profile to start from.")] = "demo",
    out: Annotated[Path, typer.Option("--out", help="File to write; an existing one is kept.")] = Path("lab.yaml"),
) -> None:
    """Write a lab file with every key explained."""
    text = init_text(profile)
    try:
        with out.open("x") as target:
            target.write(text)
    except FileExistsError:
        raise SpecError(f"{out} exists and is kept", fix="name another file with --out") from None
    except OSError as error:
        raise SpecError(f"{out} cannot be written: {error.strerror}", fix="name another file with --out") from error
    typer.echo(f"wrote {out}; next: lab plan -f {out}")
