"""``kailab exit-codes``."""

from __future__ import annotations

import typer

from lab.cli.lazy import command_app
from lab.errors import EXIT_CODES

app = command_app()


@app.command()
def exit_codes() -> None:
    """List the exit codes with their meanings."""
    for code, meaning in sorted(EXIT_CODES.items()):
        typer.echo(f"{code:>4}  {meaning}")
