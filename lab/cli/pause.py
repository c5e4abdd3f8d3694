"""``kailab pause``."""

from __future__ import annotations

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, print_json, running_lab
from lab.operations.pause import pause as pause_lab
from lab.ui.lab import render_pause

app = command_app()


@app.command(epilog="Examples: kailab pause · kailab pause --name demo; kailab resume or kailab up continues it")
def pause(file: File = None, profile: Profile = None, name: Name = None, as_json: AsJson = False) -> None:
    """Freeze the nodes of a running lab: it uses no processor time, and keeps its memory and all pods."""
    report = pause_lab(running_lab(file, profile, name, paused=True))
    print_json(report) if as_json else render_pause(report)
