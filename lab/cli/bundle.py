"""``kailab bundle``: create, verify, show."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, TypedDict

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, File, Profile, Settings, print_json, spec_of
from lab.operations.bundle import create_bundle, verify_cache
from lab.paths import cache_path
from lab.supply.bundle import Bundle
from lab.ui.text_writer import render_table

app = command_app(no_args_is_help=True)


class Checked(TypedDict):
    """Whether all files match their sums, and how those differ that do not."""

    ok: bool
    wrong: list[str]


Where = Annotated[Path, typer.Argument(help="Folder or .tar of a bundle.")]


@app.command(epilog="Example: kailab bundle create --out demo.tar · kailab bundle create --out kai --image REF=FILE")
def create(
    out: Annotated[Path, typer.Option("--out", help="New folder, or a file name ending in .tar.")],
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    image: Annotated[
        list[str] | None, typer.Option("--image", metavar="REFERENCE[=ARCHIVE]", help="Only these images.")
    ] = None,
    chart: Annotated[
        list[str] | None, typer.Option("--chart", metavar="NAME[@VERSION=FILE]", help="Only these charts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write all items of a lab into a bundle; with --image or --chart only those."""
    report = partial(typer.echo, err=True)
    bundle = create_bundle(spec_of(file, profile, settings), out, tuple(image or ()), tuple(chart or ()), report)
    if as_json:
        print_json(bundle)
    else:
        size = sum(entry.size for entry in bundle.entries) / 2**20
        typer.echo(f"{out}: {len(bundle.entries)} files, {size:.0f} MiB; next: kailab bundle verify {out}")


@app.command()
def verify(
    where: Annotated[Path | None, typer.Argument(help="Folder or .tar of a bundle; without it, the cache.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare every file of a bundle, or of the cache, with its recorded sum. Exit code 1 if one differs."""
    if where is None:
        count, wrong = verify_cache()
        fine = f"{cache_path()}: all {count} entries match their sums"
    else:
        bundle = Bundle.open(where)
        wrong = bundle.verify()
        fine = f"{where}: all {len(bundle.entries)} files match the manifest"
    if as_json:
        print_json(Checked(ok=not wrong, wrong=wrong))
    else:
        typer.echo("\n".join(wrong) if wrong else fine)
        if wrong and where is None:
            typer.echo("next: run 'kailab up' or 'kailab bundle create' again: it recreates damaged entries", err=True)
    if wrong:
        raise typer.Exit(1)


@app.command()
def show(where: Where, as_json: AsJson = False) -> None:
    """List the items of a bundle."""
    bundle = Bundle.open(where)
    if as_json:
        print_json(bundle)
        return
    rows = [[e.kind, e.name, e.version, f"{e.size / 2**20:.1f} MiB", e.sha256[:12]] for e in bundle.entries]
    render_table(f"{where} ({bundle.created})", ("kind", "name", "version", "size", "sha256"), rows)
