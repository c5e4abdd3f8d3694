"""``kailab init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.completion import complete_profile
from lab.cli.lazy import command_app
from lab.cli.options import exclusive, print_json, write_text
from lab.config import SCHEMA_FILE, SCHEMA_ID, init_text, schema_text
from lab.errors import SpecError
from lab.operations.init import existing_cluster, existing_lab_file
from lab.snapshot.inventory import inventory
from lab.ui.inventory import render_inventory

app = command_app()

_DEFAULT_KUBECONFIG = Path("~/.kube/config")


@app.command(
    epilog="Examples: kailab init · kailab init --profile minimal --out small.yaml"
    " · kailab init --existing --context gpu-farm"
)
def init(
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Profile to start from. Default: demo.", autocompletion=complete_profile),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="File to create.")] = Path("lab.yaml"),
    name: Annotated[str | None, typer.Option("--name", help="Name of the lab.")] = None,
    existing: Annotated[
        bool, typer.Option("--existing", help="Write it for a cluster that exists, from what that has.")
    ] = False,
    context: Annotated[str | None, typer.Option("--context", help="--existing: the context of the cluster.")] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", metavar="FILE", help="--existing: its kubeconfig. Default: ~/.kube/config."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="--existing: print what the cluster has, and write nothing.")
    ] = False,
) -> None:
    """Write a lab file with every key explained, and beside it the JSON Schema that editors complete it by."""
    if existing:
        text = _existing(kubeconfig, context, profile, name or "demo", as_json=as_json)
    elif context is not None or kubeconfig is not None or as_json:
        raise SpecError("--context, --kubeconfig and --json are for a cluster that exists", fix="add --existing")
    else:
        text = init_text(profile or "demo", name)
    if text:
        write_text(out, text, "--out", mode="x")
        _write_schema(out.with_name(SCHEMA_FILE))
        typer.echo(f"wrote {out}; next: kailab plan -f {out}")


def _write_schema(file: Path) -> None:
    """Write the schema, or renew an older one; a file of others with that name stays. Raises LabError."""
    if not file.exists() or SCHEMA_ID in file.read_text(errors="replace"):
        write_text(file, schema_text(), "--out")


def _existing(kubeconfig: Path | None, context: str | None, profile: str | None, name: str, *, as_json: bool) -> str:
    """Print what a cluster has; returns the lab file for it, or nothing with ``as_json``. Raises SpecError."""
    exclusive({"--profile": profile}, {"--existing": True})
    if context is None:
        raise SpecError(
            "--existing needs --context: kailab never uses a current context by accident",
            fix="name one of: kubectl config get-contexts -o name",
        )
    file = (kubeconfig or _DEFAULT_KUBECONFIG).expanduser().absolute()
    cluster = existing_cluster(file, context)
    try:
        found = inventory(cluster)
    finally:
        cluster.close()
    if as_json:
        print_json(found)
        return ""
    text = existing_lab_file(found, file, name)
    render_inventory(found)
    return text
