"""``kailab down``."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.completion import complete_lab
from lab.cli.lazy import command_app
from lab.cli.options import NAME_HELP, AsJson, File, Profile, Ui, Yes, confirm, print_json, spec_of
from lab.cli.signals import stopping
from lab.engine.events import Bus
from lab.errors import HostNotReady, NoLab, SpecError
from lab.operations.down import down as take_down
from lab.operations.down import planned_undo
from lab.paths import lab_names
from lab.session.session import name_of
from lab.ui import attach
from lab.ui.lab import render_down, render_undo

app = command_app()


@app.command(epilog="Examples: kailab down · kailab down --images · kailab down --host --yes")
def down(
    file: File = None,
    profile: Profile = None,
    name: Annotated[str | None, typer.Option("--name", "--lab", help=NAME_HELP, autocompletion=complete_lab)] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="With --context. Default: ~/.kube/config.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", help="An existing cluster with a lab whose state is lost.")
    ] = None,
    images: Annotated[
        bool, typer.Option("--images", help="Also remove the baked node images and the checkpoint.")
    ] = False,
    host: Annotated[bool, typer.Option("--host", help="Also undo the host changes.")] = False,
    yes: Yes = False,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Remove the lab in any state, and verify that nothing is left."""
    at = _lost(name, kubeconfig, context)
    try:
        which = spec_of(file, profile, None, name).name if file or profile else name_of(name)
    except NoLab:
        # With several labs a name is needed; without any, 'down' still looks for leftovers.
        if lab_names():
            raise
        which = spec_of(None, None, None).name
    if host and not yes and (planned := planned_undo()):
        render_undo(planned)
        if not confirm("undo these changes of this machine?"):
            raise HostNotReady("Undoing host changes was not approved", fix="re-run with --yes to approve it")
    bus, cancel = Bus(), threading.Event()
    with stopping(cancel), attach(bus, ui):
        report = take_down(
            which, keep_images=not images, host=host, bus=bus, cancel=cancel, unnamed=name is None, at=at
        )
    print_json(report) if as_json else render_down(report)


def _lost(name: str | None, kubeconfig: Path | None, context: str | None) -> tuple[Path, str] | None:
    """Where a lab is whose state is lost; None: the state is here. Raises SpecError."""
    if context is None and kubeconfig is None:
        return None
    if context is None or name is None:
        raise SpecError(
            "--context and --lab name a lab whose state is lost", fix="give both: --context NAME --lab NAME"
        )
    return (kubeconfig or Path("~/.kube/config")).expanduser().absolute(), context
