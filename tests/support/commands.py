"""The commands of kailab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from lab.cli.app import app


def commands(command: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group, with its words on the command line."""
    command = command or typer.main.get_command(app)
    yield words, command
    for name in sorted(command.list_commands(None)) if hasattr(command, "list_commands") else ():
        yield from commands(command.get_command(None, name), (*words, name))
