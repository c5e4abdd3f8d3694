"""Options that the commands of ``kailab tenant`` share, and their meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from lab.cli.completion import complete_tenant
from lab.cli.options import confirm
from lab.engine.step import Effect
from lab.errors import SpecError
from lab.ui.tenants import render_changes

AgreedForAll = Annotated[
    bool, typer.Option("--yes", "-y", help="Approve changes that affect the whole lab: KAI on the host.")
]
TenantName = Annotated[str, typer.Argument(metavar="NAME", help="A tenant of the lab.", autocompletion=complete_tenant)]


def nodes_of(text: str | None) -> int | list[str] | None:
    """Value of ``--nodes``: a number of workers, or their short names."""
    if text is None:
        return None
    return int(text) if text.isdecimal() else [word.strip() for word in text.split(",") if word.strip()]


def grace_of(text: str) -> float | None:
    """Value of ``--grace``: seconds, or None for ``own``. Raises SpecError."""
    if text == "own":
        return None
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"--grace {text}: must be 'own' or seconds", fix="use --grace own, or --grace 5") from None


def asker(yes: bool) -> Callable[[tuple[Effect, ...]], bool]:
    """A function that prints changes that affect the whole lab, and asks for approval unless ``yes``."""

    def ask(effects: tuple[Effect, ...]) -> bool:
        render_changes(effects)
        return yes or confirm("make these changes?")

    return ask
