"""Tenants that are added to a lab that runs: as asked for, checked with the whole lab, and as they are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lab.config.document import LabFileDocument, read_document
from lab.config.error_text import explain
from lab.config.loader import dump_spec
from lab.config.models import LabSpec
from lab.config.node_assignment import tenant_nodes
from lab.config.rules import Loc
from lab.config.tenant import TenantSpec
from lab.errors import SpecError

_FIX = "correct what is named; 'lab init' writes a lab file with every key of a tenant explained"


@dataclass(frozen=True)
class TenantRequest:
    """A tenant as it was asked for, in the lab file's spelling, and the file that says the rest."""

    data: Mapping[str, Any]
    file: Path | None = None
    document: LabFileDocument | None = None
    options: frozenset[str] = frozenset()
    """Keys that the command line gave; the others come from the file."""

    @property
    def name(self) -> str:
        return str(self.data.get("name", ""))

    def at(self, loc: Loc) -> str:
        """``FILE:LINE: `` of a place in the tenant, where the file says it; otherwise nothing."""
        if self.document is None or (loc and loc[0] in self.options):
            return ""
        return f"{self.file}:{self.document.line(loc)}: "


def tenant_request(
    name: str, options: Mapping[str, Any], file: Path | None = None, values: Path | None = None
) -> TenantRequest:
    """What the command line asks for: a file with one tenant, single keys over it, and a file of vCluster values.

    Args:
        name: the tenant's; a file that names another one is refused.
        options: keys in the lab file's spelling; those that are None were not given.
        file: one item of the lab file's ``tenants``.
        values: a vcluster.yaml of the user's own; it replaces ``values`` of the file.

    Raises:
        SpecError: a file cannot be read, or says something that is no plain data.
    """
    document = _document(file) if file else None
    data: dict[str, Any] = dict(document.data) if document else {}
    if data.get("name", name) != name:
        raise SpecError(f"{file}: the tenant in it is called {data['name']!r}, not {name!r}", fix="leave its name out")
    given = {key: value for key, value in options.items() if value is not None}
    if values is not None:
        given["values"] = _document(values).data
    if (gpus := given.pop("gpus", None)) is not None:
        quota = data.get("quota")
        given["quota"] = {**(quota if isinstance(quota, dict) else {}), "gpus": gpus}
    return TenantRequest({**data, **given, "name": name}, file, document, frozenset(given))


def with_tenant(spec: LabSpec, asked: TenantRequest) -> LabSpec:
    """The lab with one more tenant, its last, checked as a lab file is.

    The workers that the tenant gets are written down by name, so that no later change of the lab moves it.

    Raises:
        SpecError: the tenant is wrong, does not fit the lab, or would take another tenant's nodes.
    """
    number = len(spec.tenants)
    try:
        whole = _checked(spec, [dict(asked.data)])
    except ValidationError as refused:
        lines = [_line(asked, number, error["loc"], explain(error)) for error in refused.errors(include_url=False)]
        raise _refusal(f"tenant {asked.name} cannot be added", lines) from None
    before, after = tenant_nodes(spec), tenant_nodes(whole)
    if moved := [name for name, nodes in before.items() if after.get(name) != nodes]:
        raise SpecError(
            f"tenant {asked.name} would take nodes that belong to tenant {moved[0]} ({', '.join(before[moved[0]])})",
            fix="give it other workers with --nodes, or a number of them",
        )
    return with_fixed_nodes(whole, asked.name)


def with_fixed_nodes(spec: LabSpec, *names: str) -> LabSpec:
    """The lab with the own workers of these tenants written down by name; of all tenants when none is named."""
    own = tenant_nodes(spec)
    tenants = tuple(
        tenant.model_copy(update={"nodes": own[tenant.name]})
        if tenant.name in own and (not names or tenant.name in names)
        else tenant
        for tenant in spec.tenants
    )
    return spec.model_copy(update={"tenants": tenants})


def without_tenant(spec: LabSpec, added: Sequence[TenantSpec], name: str) -> tuple[LabSpec, tuple[TenantSpec, ...]]:
    """A lab file and the added tenants without one tenant; no other tenant moves to other workers."""
    if any(tenant.name == name for tenant in spec.tenants):
        spec = with_fixed_nodes(spec)  # nodes assigned by count would move when one tenant fewer is counted
    remaining = tuple(tenant for tenant in spec.tenants if tenant.name != name)
    return spec.model_copy(update={"tenants": remaining}), tuple(tenant for tenant in added if tenant.name != name)


def with_added(spec: LabSpec, added: Sequence[TenantSpec]) -> LabSpec:
    """The lab with the tenants that were added to it behind its own; one that the lab file names too is the file's."""
    known = {tenant.name for tenant in spec.tenants}
    further = tuple(tenant for tenant in added if tenant.name not in known)
    return spec.model_copy(update={"tenants": (*spec.tenants, *further)}) if further else spec


def checked_with_added(spec: LabSpec, added: Sequence[TenantSpec]) -> LabSpec:
    """``with_added``, for a lab file that may have changed since.

    Raises:
        SpecError: lab file and added tenants do not go together any more.
    """
    whole = with_added(spec, added)
    if whole is spec:
        return spec
    try:
        _checked(spec, dump_added(whole.tenants[len(spec.tenants) :]))
    except ValidationError as refused:
        names = [tenant.name for tenant in whole.tenants]
        lines = [f"{_said(names, error['loc'])}{explain(error)}" for error in refused.errors(include_url=False)]
        names = names[len(spec.tenants) :]
        what = "the lab file and the tenants that were added to the lab do not go together"
        raise SpecError(
            what, evidence=lines, fix=f"correct the lab file, or take them away: lab tenant remove {' · '.join(names)}"
        ) from None
    return whole


def dump_added(tenants: Sequence[TenantSpec]) -> list[dict[str, Any]]:
    """Tenants as plain data, for the state directory; ``load_added`` reads it."""
    return [json.loads(tenant.model_dump_json(by_alias=True)) for tenant in tenants]


def load_added(data: object) -> tuple[TenantSpec, ...]:
    """The tenants that ``dump_added`` wrote; none where an older kailab wrote the state.

    Raises:
        ValueError: it is something else.
    """
    if data is None:
        return ()
    if not isinstance(data, list):
        raise ValueError("'added' is no list")  # noqa: TRY004 - damaged data, not a caller's mistake
    return tuple(TenantSpec.model_validate(item, by_alias=True, by_name=False) for item in data)


def _checked(spec: LabSpec, more: Sequence[Mapping[str, Any]]) -> LabSpec:
    data = json.loads(dump_spec(spec))
    data["tenants"] = [*data["tenants"], *more]
    return LabSpec.model_validate(data, by_alias=True, by_name=False)


def _document(file: Path) -> LabFileDocument:
    document = read_document(file.expanduser())
    if document.flaws:
        lines = [f"{file}:{flaw.line}: {_path(flaw.loc)}{flaw.what}" for flaw in document.flaws]
        raise _refusal(f"{file} cannot be used", lines)
    return document


def _refusal(what: str, lines: list[str]) -> SpecError:
    return SpecError(lines[0], fix=_FIX) if len(lines) == 1 else SpecError(what, evidence=lines, fix=_FIX)


def _line(asked: TenantRequest, number: int, loc: Loc, what: str) -> str:
    if loc[:2] != ("tenants", number):
        return f"{_path(loc)}{what}"
    return f"{asked.at(loc[2:])}tenant {asked.name}: {_path(loc[2:])}{what}"


def _said(names: list[str], loc: Loc) -> str:
    if len(loc) > 1 and loc[0] == "tenants" and isinstance(loc[1], int):
        return f"tenant {names[loc[1]]}: {_path(loc[2:])}"
    return _path(loc)


def _path(loc: Loc) -> str:
    return f"{'.'.join(str(word) for word in loc)}: " if loc else ""
