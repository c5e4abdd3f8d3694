"""``kailab resume``."""

from __future__ import annotations

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Name, Profile, print_json, running_lab
from lab.operations.pause import resume as resume_lab
from lab.ui.lab import render_pause

app = command_app()


@app.command(epilog="Examples: kailab resume · kailab resume --name demo --json")
def resume(file: File = None, profile: Profile = None, name: Name = None, as_json: AsJson = False) -> None:
    """Continue a paused lab, and wait until its nodes are Ready. Its pods run on where they were."""
    report = resume_lab(running_lab(file, profile, name, paused=True))
    print_json(report) if as_json else render_pause(report)
