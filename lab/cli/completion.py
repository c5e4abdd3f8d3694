"""Words for the shell's completion, from the saved state of the labs on this machine; no cluster is asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import typer

from lab.config import LabSpec, profile_names, worker_names
from lab.gpu.pools import pools_by_node, short_name
from lab.kai.facts import releases
from lab.paths import lab_names
from lab.session.session import Session


def complete_lab(incomplete: str) -> list[str]:
    """Names of labs."""
    return _starting(incomplete, _labs())


def complete_profile(incomplete: str) -> list[str]:
    """Names of profiles."""
    return _starting(incomplete, profile_names())


def complete_kai(incomplete: str) -> list[str]:
    """Releases of KAI; in a list separated by commas, the last one."""
    return _last_of_list(incomplete, releases())


def complete_tenant(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of tenants."""
    return _starting(incomplete, (tenant.name for spec in _specs(ctx.params) for tenant in spec.tenants))


def complete_workers(ctx: typer.Context, incomplete: str) -> list[str]:
    """Short names of workers; in a list separated by commas, the last one."""
    return _last_of_list(incomplete, (name for spec in _specs(ctx.params) for name in worker_names(spec)))


def complete_gpu(ctx: typer.Context, incomplete: str) -> list[str]:
    """GPUs as ``NODE/INDEX``, the node by its short name."""
    return _starting(
        incomplete,
        (
            f"{short_name(spec.name, node)}/{index}"
            for spec in _specs(ctx.params)
            for node, pool in pools_by_node(spec).items()
            for index in range(pool.per_node)
        ),
    )


def _labs() -> tuple[str, ...]:
    with suppress(Exception):  # completion must never show a traceback
        return lab_names()
    return ()


def _specs(params: dict[str, Any]) -> Iterator[LabSpec]:
    """The lab that ``--name`` or KAILAB_LAB names, else all labs."""
    named = params.get("name") or os.environ.get("KAILAB_LAB")
    for name in [named] if named else _labs():
        with suppress(Exception):
            yield Session.attached(name).spec


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete)})


def _last_of_list(incomplete: str, words: Iterable[str]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{word}" for word in _starting(last, words)]
