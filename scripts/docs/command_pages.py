"""Pages of the site about commands: one for each top-level command, with its subcommands, and their index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from lab.cli.app import app
from scripts.docs.markdown import code, inline, link, page, plain, prose, table
from scripts.docs.recording import Recorded, recorded

FOLDER = "reference/cli"


def command_pages() -> dict[str, str]:
    """The pages by path."""
    root: Any = typer.main.get_command(app)
    commands = {name: root.get_command(None, name) for name in root.list_commands(None)}
    outputs = recorded()
    pages = {
        f"{FOLDER}/{name}.md": page(
            f"kailab {name}", "[All commands](index.md)", *_blocks(command, f"kailab {name}", outputs)
        )
        for name, command in commands.items()
    }
    rows = [(link(f"kailab {name}", f"{name}.md"), prose(command.help)) for name, command in commands.items()]
    about = (
        "Options of each command, from its code. What is worth knowing at a glance is in [Commands](../commands.md)."
    )
    general = "## Options of kailab itself\n\n" + _options(root)
    return {
        **pages,
        f"{FOLDER}/index.md": page(
            "Options of every command", about, table(("command", "what it does"), rows), general
        ),
    }


def _blocks(command: Any, words: str, outputs: tuple[Recorded, ...], depth: int = 2) -> Iterator[str]:
    """What a command does, its examples, arguments and options, recorded output, and the same of its subcommands."""
    yield prose(command.help or "")
    if command.epilog:
        examples = command.epilog.partition(":")[2] if command.epilog.startswith("Example") else command.epilog
        yield code("\n".join(part.strip() for part in examples.split(" · ")), "sh")
    if params := _options(command):
        yield params
    for one in outputs:
        if one.of(words):
            yield f"Output of a real run, {plain(one.where)}:\n\n" + code(f"$ {one.command}\n{one.text}")
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield f"{'#' * depth} {words} {name}"
        yield from _blocks(command.get_command(None, name), f"{words} {name}", outputs, depth + 1)


def _options(command: Any) -> str:
    rows = [_row(one) for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    return table(("argument or option", "default", "meaning"), rows) if rows else ""


def _row(one: Any) -> tuple[str, str, str]:
    names = [*one.opts, *one.secondary_opts]
    option = names[0].startswith("-")
    value = "" if getattr(one, "is_flag", False) else f" {one.metavar or one.name.upper()}"
    shown = ", ".join(names) + value if option else one.metavar or one.name.upper()
    default = (
        "required"
        if one.required
        else ""
        if one.default in (None, "", False, ()) or callable(one.default)
        else str(one.default)
    )
    return inline(shown), plain(default), prose(getattr(one, "help", None) or "")
