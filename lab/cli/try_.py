"""``kailab try``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import Ui, Yes, approve, confirm, lab_of
from lab.cli.signals import stopping
from lab.engine.events import Bus
from lab.operations.down import down as take_down
from lab.operations.trial import PROFILE, try_out
from lab.operations.up import up as bring_up
from lab.text import seconds
from lab.ui import attach
from lab.ui.first_minutes import render_trial, render_trial_kept
from lab.ui.lab import render_down

app = command_app()


@app.command("try", epilog="Examples: kailab try · kailab try --yes --down")
def try_(
    name: Annotated[str, typer.Option("--name", help="Name of the lab.")] = "try",
    yes: Yes = False,
    down: Annotated[
        bool | None, typer.Option("--down/--keep", help="Remove the lab at the end. Default: ask, or keep it.")
    ] = None,
    ui: Ui = "auto",
) -> None:
    """Bring up the smallest lab with KAI, let two pods share its GPU, and explain why a third waits."""
    began = time.monotonic()
    lab = lab_of(None, PROFILE, None, name)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        bring_up(lab, require=frozenset({"kai"}), ask=(lambda _: True) if yes else approve)
    with stopping(lab.session.cancel):
        trial = try_out(lab)
    render_trial(trial, name)
    typer.echo(f"that took {seconds(time.monotonic() - began)}")
    if down or (down is None and confirm(f"remove lab {name}?")):
        bus = Bus()
        with stopping(lab.session.cancel), attach(bus, ui):
            report = take_down(name, keep_images=True, bus=bus, cancel=lab.session.cancel)
        render_down(report)
    else:
        render_trial_kept(name, lab.paths.kubeconfig)
