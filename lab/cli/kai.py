"""``lab kai``: KAI's version lines."""

from __future__ import annotations

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, print_json
from lab.kai import lines
from lab.ui.kai_versions import render_kai_versions

app = command_app(no_args_is_help=True)
app.callback()(lambda: None)  # keeps ``versions`` a subcommand, although it is the only one


@app.command(epilog="Examples: lab kai versions · lab kai versions --json")
def versions(as_json: AsJson = False) -> None:
    """List the version lines: releases, Kubernetes, queues, features and known defects."""
    known = tuple(lines().values())
    print_json(known) if as_json else render_kai_versions(known)
