"""What the commands of ``lab tenant`` share: the tenant's name with its completion, and what options mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.engine.step import Effect


def complete_tenant(incomplete: str) -> list[str]:
    """Names of tenants for the shell, by the saved state of the labs of this machine; no cluster is asked."""
    import json
    from contextlib import suppress

    from lab.paths import LabPaths, lab_names

    names: set[str] = set()
    labs: tuple[str, ...] = ()
    with suppress(Exception):  # a shell that completes must never show a traceback
        labs = lab_names()
    for lab in labs:
        with suppress(Exception):
            saved = json.loads(LabPaths(lab).spec.read_text())
            names.update(tenant["name"] for tenant in (*saved["asked"]["tenants"], *saved.get("added", ())))
    return sorted(name for name in names if name.startswith(incomplete))


TenantName = Annotated[str, typer.Argument(metavar="NAME", help="A tenant of the lab.", autocompletion=complete_tenant)]


def nodes_of(text: str | None) -> int | list[str] | None:
    """``--nodes``: a number of workers, or their short names."""
    if text is None:
        return None
    return int(text) if text.isdecimal() else [word.strip() for word in text.split(",") if word.strip()]


def grace_of(text: str) -> float | None:
    """``--grace``: seconds, or None for ``own``. Raises SpecError."""
    from lab.errors import SpecError

    if text == "own":
        return None
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"--grace {text}: must be 'own' or seconds", fix="--grace own, or --grace 5") from None


def asker(yes: bool) -> Callable[[tuple[Effect, ...]], bool]:
    """Asks for what changes for everybody in the lab; says it in any case."""

    def ask(effects: tuple[Effect, ...]) -> bool:
        import sys

        from lab.ui.tenants import render_changes

        render_changes(effects)
        return yes or (sys.stdin.isatty() and typer.confirm("make these changes?", err=True))

    return ask
