"""``kailab tenant list``."""

from __future__ import annotations

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.operations.tenant.status import states
from lab.session.lab import Lab
from lab.ui.tenants import render_tenants

app = command_app()


@app.command(epilog="Examples: kailab tenant list · kailab tenant list --name demo --json")
def list_(name: Name = None, as_json: AsJson = False) -> None:
    """List the tenants: mode, versions, dedicated nodes, GPUs, pods, API. Those added later are marked '+'."""
    lab = Lab.attach(name)
    found = states(lab)
    print_json(found) if as_json else render_tenants(found, lab.spec.name)
