"""``lab kai``: what the lab knows of KAI."""

from __future__ import annotations

import typer

from lab.cli.options import AsJson, print_json

kai_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="What the lab knows of NVIDIA KAI Scheduler, by version."
)


@kai_app.callback()
def _several() -> None:
    """Keep ``versions`` a command of its own, although it is the only one."""


@kai_app.command(epilog="Examples: lab kai versions · lab kai versions --json")
def versions(as_json: AsJson = False) -> None:
    """List the version lines: releases, Kubernetes, queues, features and known defects."""
    from lab.kai import lines
    from lab.ui.kai_versions import render_kai_versions

    known = tuple(lines().values())
    print_json([line.as_json() for line in known]) if as_json else render_kai_versions(known)
