"""``lab up``."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import (
    AsJson,
    File,
    Name,
    Profile,
    Require,
    Settings,
    Ui,
    Yes,
    confirm,
    lab_of,
    print_json,
    required,
)
from lab.cli.signals import stopping
from lab.engine.step import Effect
from lab.operations.up import up as bring_up
from lab.ui import attach
from lab.ui.lab import render_effects, render_up

app = command_app()


@app.command(epilog="Examples: lab up --yes · lab up -f my.yaml --set gpu.perNode=4 --require kai")
def up(
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    name: Name = None,
    yes: Yes = False,
    means: Annotated[
        str, typer.Option("--yes-i-mean", metavar="CONTEXT", help="Use an existing cluster that looks like production.")
    ] = "",
    require: Require = None,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Bring the lab up, or finish what an earlier run began. Running it twice changes nothing."""
    lab = lab_of(file, profile, settings, name)
    needs = required(require)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = bring_up(lab, require=needs, ask=(lambda _: True) if yes else _approve, means=means)
    print_json(report) if as_json else render_up(report)


def _approve(effects: tuple[Effect, ...]) -> bool:
    render_effects(effects)
    return confirm("make these changes?")
