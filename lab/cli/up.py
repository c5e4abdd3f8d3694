"""``kailab up``."""

from __future__ import annotations

import os
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
    approve,
    lab_of,
    on_terminal,
    print_json,
    required,
)
from lab.cli.signals import stopping
from lab.config import DEFAULT_FILE
from lab.operations.profiles import profile_offers
from lab.operations.up import up as bring_up
from lab.paths import lab_names
from lab.ui import attach
from lab.ui.first_minutes import render_profiles
from lab.ui.lab import render_up

app = command_app()


@app.command(epilog="Examples: kailab up --yes · kailab up -f my.yaml --set gpu.perNode=4 --require kai")
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
    if not (file or profile or yes or as_json or os.path.lexists(DEFAULT_FILE) or lab_names()) and on_terminal():
        profile = _choose_profile()
    lab = lab_of(file, profile, settings, name)
    needs = required(require)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = bring_up(lab, require=needs, ask=(lambda _: True) if yes else approve, means=means)
    print_json(report) if as_json else render_up(report)


def _choose_profile() -> str:
    """Ask which profile; on a terminal only, and only if this machine has no lab that 'kailab up' could continue."""
    offers = profile_offers()
    render_profiles(offers)
    names = [offer.name for offer in offers]
    while True:
        answer = str(typer.prompt("number or name", default=names[0], err=True)).strip()
        if answer in names:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
