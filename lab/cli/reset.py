"""``kailab reset``."""

from __future__ import annotations

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, Ui, approve, print_json, running_lab
from lab.cli.signals import stopping
from lab.operations.reset import reset as reset_lab
from lab.ui import attach
from lab.ui.lab import render_up

app = command_app()


@app.command(epilog="Examples: kailab reset · kailab reset --name demo --json")
def reset(
    file: File = None, profile: Profile = None, name: Name = None, ui: Ui = "auto", as_json: AsJson = False
) -> None:
    """Make a used lab as it was after 'kailab up': everything in its cluster is lost. Quicker with a checkpoint."""
    lab = running_lab(file, profile, name, paused=True)
    with stopping(lab.session.cancel), attach(lab.bus, ui):
        report = reset_lab(lab, ask=approve)
    print_json(report) if as_json else render_up(report)
