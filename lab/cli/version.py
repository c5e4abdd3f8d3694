"""``kailab version``."""

from __future__ import annotations

import typer

from lab import __version__
from lab.cli.lazy import command_app

app = command_app()


@app.command()
def version() -> None:
    """Print kailab's version."""
    typer.echo(__version__)
