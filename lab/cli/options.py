"""Options that several commands share, and their meaning."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli.completion import complete_lab, complete_profile
from lab.config import LabSpec, profile_names, resolve_spec
from lab.engine.step import Effect
from lab.errors import LabError, SpecError
from lab.kai import line_of
from lab.kube import Cluster
from lab.objects.redact import redact
from lab.serialization import document
from lab.session.lab import Lab
from lab.ui.lab import render_effects

File = Annotated[
    Path | None, typer.Option("-f", "--file", help="Lab file. Default: lab.yaml here, else the profile demo.")
]
Profile = Annotated[
    str | None,
    typer.Option("--profile", help=f"Shipped lab file: {', '.join(profile_names())}.", autocompletion=complete_profile),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a value, such as gpu.perNode=4.")
]
NAME_HELP = "Name of the lab. Default: KAILAB_LAB, lab.yaml's, or the only one."
Name = Annotated[str | None, typer.Option("--name", help=NAME_HELP, autocompletion=complete_lab)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Approve the listed host changes.")]
Require = Annotated[list[str] | None, typer.Option("--require", metavar="WHAT", help="Fail if it is missing: kai.")]
Ui = Annotated[str, typer.Option("--ui", help="auto, board, plain, github, gitlab or json.")]
Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Read any cluster instead of a lab.")
]
Context = Annotated[str | None, typer.Option("--context", help="Context in --kubeconfig. Default: its current one.")]
Saved = Annotated[Path | None, typer.Option("--snapshot", metavar="FILE", help="Read a snapshot instead of a cluster.")]


def spec_of(file: Path | None, profile: str | None, settings: list[str] | None, name: str | None = None) -> LabSpec:
    """The lab file that the options describe. Raises SpecError.

    KAILAB_LAB names the lab of a profile or of lab.yaml; a file that is given has a name of its own.
    """
    by_environment = [] if file else _named(os.environ.get("KAILAB_LAB"))
    return resolve_spec(file, profile, [*by_environment, *(settings or []), *_named(name)])


def _named(name: str | None) -> list[str]:
    return [f"name={name}"] if name else []


def running_lab(file: Path | None, profile: str | None, name: str | None, *, paused: bool = False) -> Lab:
    """The running lab that the options name: by a lab file or profile, by its name, else the only one.

    Raises:
        SpecError: the lab file is invalid.
        NoLab: no such lab is up.
        StepFailed: it is paused, and ``paused`` is not set.
    """
    if file is not None or profile is not None:
        name = spec_of(file, profile, None, name).name
    return Lab.attach(name, paused=paused)


def lab_of(file: Path | None, profile: str | None, settings: list[str] | None, name: str | None) -> Lab:
    """The lab that the options describe, running or not. Raises SpecError."""
    return Lab.of(spec_of(file, profile, settings, name))


def exclusive(*groups: Mapping[str, object]) -> None:
    """Refuse options of more than one group; ``groups`` map names to values. Raises SpecError."""
    named = [next((option for option, value in group.items() if value), "") for group in groups]
    if len(given := list(filter(None, named))) > 1:
        raise SpecError(f"{given[0]} and {given[1]} are mutually exclusive", fix="omit one of them")


def cluster_of(
    name: str | None, kubeconfig: Path | None, context: str | None, tenant: str | None = None
) -> Cluster | None:
    """The cluster of ``--kubeconfig``, or None if the options mean a lab or its tenant. Raises SpecError."""
    exclusive({"--tenant": tenant, "--name": name}, {"--kubeconfig": kubeconfig})
    if kubeconfig is None:
        if context is not None:
            raise SpecError("--context needs --kubeconfig", fix="add --kubeconfig FILE")
        return None
    if not kubeconfig.expanduser().is_file():
        raise SpecError(f"--kubeconfig {kubeconfig}: no such file", fix="name an existing kubeconfig file")
    return Cluster(kubeconfig.expanduser(), context)


def warn_about_kai(version: str, kubernetes: str = "") -> None:
    """State on stderr that a KAI is newer than all that kailab knows, or is not validated with this Kubernetes."""
    with suppress(SpecError):
        line = line_of(version)
        doubts = (line.warning if line.newer else "", line.outside(kubernetes) if kubernetes else "")
        for doubt in filter(None, doubts):
            typer.echo(f"warning: {doubt}", err=True)


def required(require: list[str] | None) -> frozenset[str]:
    """Values of ``--require``, which may also be separated by commas. Raises SpecError for an unknown one."""
    names = frozenset(name.strip() for entry in require or [] for name in entry.split(",") if name.strip())
    if unknown := sorted(names - {"kai"}):
        raise SpecError(f"--require {unknown[0]}: unknown value", fix="use --require kai")
    return names


def print_json(data: Any) -> None:
    """Print a document, without secrets, on stdout."""
    typer.echo(json.dumps(redact(document(data)), indent=1))


def write_text(file: Path, text: str, option: str, mode: str = "w") -> None:
    """Write the file that an option names; mode ``x`` keeps an existing one. Raises LabError."""
    try:
        with file.open(mode) as target:
            target.write(text)
    except FileExistsError:
        raise SpecError(f"{file} already exists", fix=f"name another file with {option}") from None
    except OSError as error:
        raise LabError(f"{file} cannot be written: {error.strerror}", fix=f"name another file with {option}") from error


def on_terminal() -> bool:
    """Whether a person can be asked: on stdin, with the question on stderr."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask on a terminal; return False without one."""
    return sys.stdin.isatty() and typer.confirm(question, err=True)


def approve(effects: tuple[Effect, ...]) -> bool:
    """Show changes to this machine, and ask for approval."""
    render_effects(effects)
    return confirm("make these changes?")
