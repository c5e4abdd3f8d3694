"""Command groups that import a command only when it is called: ``kailab --help`` loads none of them.

The pattern is click's LazyGroup (https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands).
"""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


def command_app(**more: Any) -> typer.Typer:
    """A Typer application with the settings that all commands share; ``more`` overrides them."""
    shared: dict[str, Any] = {
        "add_completion": False,
        "rich_markup_mode": None,
        "pretty_exceptions_enable": False,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    return typer.Typer(**{**shared, **more})


def _module(command: str) -> str:
    name = command.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def lazy_group(package: str, summaries: Mapping[str, str], **more: Any) -> typer.Typer:
    """A group of commands in ``package``: ``exit-codes`` is the ``app`` of the module ``exit_codes``.

    ``summaries`` has the help line of each command, in the order of the help page. A group without a help text of its
    own gets it from there.
    """

    class LazyGroup(TyperGroup):  # typer carries its own click since 0.20, so its types are not named here
        def list_commands(self, ctx: Any) -> list[str]:
            return list(summaries)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in summaries:
                return None
            module = importlib.import_module(f"{package}.{_module(cmd_name)}")
            command = typer.main.get_command(module.app)
            command.name = cmd_name
            command.help = command.help or summaries[cmd_name]
            return command

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            limit = formatter.width - 6 - max(map(len, summaries))
            rows = [(name, TyperCommand(name, help=text).get_short_help_str(limit)) for name, text in summaries.items()]
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    app = command_app(cls=LazyGroup, no_args_is_help=True, **more)
    app.callback()(lambda: None)
    return app
