"""``kailab schema``."""

from __future__ import annotations

import typer

from lab.cli.lazy import command_app
from lab.config import schema_text

app = command_app()


@app.command(epilog="Example: kailab schema > lab.schema.json")
def schema() -> None:
    """Print the JSON Schema of lab files."""
    typer.echo(schema_text(), nl=False)
