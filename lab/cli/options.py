"""Options that several commands share, and what they resolve to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.config import LabSpec, resolve_spec
from lab.errors import SpecError
from lab.serialization import document
from lab.session.lab import Lab

File = Annotated[
    Path | None, typer.Option("-f", "--file", help="Lab file. Default: lab.yaml here, else the profile demo.")
]
Profile = Annotated[str | None, typer.Option("--profile", help="Shipped lab file: demo, cpu, gpu, gpus or minimal.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override one value, e.g. gpu.perNode=4.")
]
Name = Annotated[
    str | None, typer.Option("--name", help="Which lab. Default: KAILAB_LAB, lab.yaml's, or the only one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print plain data on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Agree to the changes of this machine that are listed.")]
Require = Annotated[list[str] | None, typer.Option("--require", metavar="WHAT", help="Fail unless it is there: kai.")]
Ui = Annotated[str, typer.Option("--ui", help="auto, board, plain, github, gitlab or json.")]


def spec_of(file: Path | None, profile: str | None, settings: list[str] | None, name: str | None = None) -> LabSpec:
    """The lab file that the options mean. Raises SpecError."""
    return resolve_spec(file, profile, [*(settings or []), *([f"name={name}"] if name else [])])


def lab_of(file: Path | None, profile: str | None, settings: list[str] | None, name: str | None) -> Lab:
    """The lab that the options mean, up or not. Raises SpecError."""
    return Lab.of(spec_of(file, profile, settings, name))


def required(require: list[str] | None) -> frozenset[str]:
    """The things named by --require, also separated by commas. Raises SpecError for an unknown one."""
    names = frozenset(name.strip() for entry in require or [] for name in entry.split(",") if name.strip())
    if unknown := sorted(names - {"kai"}):
        raise SpecError(f"--require {unknown[0]}: not known", fix="known: kai")
    return names


def print_json(data: Any) -> None:
    """Write a document to stdout."""
    typer.echo(json.dumps(document(data), indent=1))


def confirm(question: str) -> bool:
    """Ask on a terminal; elsewhere the answer is no."""
    return sys.stdin.isatty() and typer.confirm(question, err=True)
