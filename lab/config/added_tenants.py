"""Tenants added to a running lab: read from a request, validated with the whole lab, and saved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lab.config.document import LabFileDocument, read_document
from lab.config.error_text import explain
from lab.config.loader import dump_spec, errors_in
from lab.config.models import LabSpec
from lab.config.node_assignment import tenant_nodes
from lab.config.rules import Loc, prefix
from lab.config.tenant import TenantSpec
from lab.errors import SpecError


@dataclass(frozen=True)
class TenantRequest:
    """A requested tenant in the lab file's spelling, and the file that it comes from."""

    data: Mapping[str, Any]
    file: Path | None = None
    document: LabFileDocument | None = None
    options: frozenset[str] = frozenset()
    """Keys from the command line; the others come from the file."""

    @property
    def name(self) -> str:
        return str(self.data.get("name", ""))

    def source(self, loc: Loc) -> str:
        """``FILE:LINE: `` of a place in the tenant if the file has it, otherwise empty."""
        if self.document is None or (loc and loc[0] in self.options):
            return ""
        return f"{self.file}:{self.document.line(loc)}: "


def tenant_request(
    name: str, options: Mapping[str, Any], file: Path | None = None, values: Path | None = None
) -> TenantRequest:
    """The tenant that a command line requests.

    ``options`` are keys in the lab file's spelling (None: not given) and override ``file``, one item of the lab file's
    ``tenants``. ``values`` is a vcluster.yaml that replaces ``values`` of the file. Raises SpecError.
    """
    document = _document(file) if file else None
    data: dict[str, Any] = dict(document.data) if document else {}
    if data.get("name", name) != name:
        raise SpecError(f"{file}: the tenant is named {data['name']!r}, not {name!r}", fix="remove its name")
    given = {key: value for key, value in options.items() if value is not None}
    if values is not None:
        given["values"] = _document(values).data
    if (gpus := given.pop("gpus", None)) is not None:
        quota = data.get("quota")
        given["quota"] = {**(quota if isinstance(quota, dict) else {}), "gpus": gpus}
    return TenantRequest({**data, **given, "name": name}, file, document, frozenset(given))


def with_tenant(spec: LabSpec, request: TenantRequest) -> LabSpec:
    """The validated lab with one more tenant at the end.

    Dedicated workers of the tenant are fixed by name, so that no later change of the lab moves it. Raises SpecError if
    the tenant is invalid, conflicts with the lab, or would take another tenant's nodes.
    """
    try:
        whole = _validated(spec, [dict(request.data)])
    except ValidationError as refused:
        names = [*(tenant.name for tenant in spec.tenants), request.name]
        raise errors_in(f"tenant {request.name} cannot be added", _lines(refused, names, request)) from None
    before, after = tenant_nodes(spec), tenant_nodes(whole)
    if moved := [name for name, nodes in before.items() if after.get(name) != nodes]:
        raise SpecError(
            f"tenant {request.name} would take nodes of tenant {moved[0]} ({', '.join(before[moved[0]])})",
            fix="choose other workers, or a number of workers, with --nodes",
        )
    return with_fixed_nodes(whole, request.name)


def with_fixed_nodes(spec: LabSpec, *names: str) -> LabSpec:
    """The lab with the dedicated workers of these tenants (default: all) fixed by name."""
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
    """The lab with the added tenants after its own; a tenant of the lab file replaces an added one."""
    known = {tenant.name for tenant in spec.tenants}
    further = tuple(tenant for tenant in added if tenant.name not in known)
    return spec.model_copy(update={"tenants": (*spec.tenants, *further)}) if further else spec


def checked_with_added(spec: LabSpec, added: Sequence[TenantSpec]) -> LabSpec:
    """``with_added``, validated for a lab file that may have changed. Raises SpecError."""
    whole = with_added(spec, added)
    if whole is spec:
        return spec
    further = whole.tenants[len(spec.tenants) :]
    try:
        _validated(spec, dump_added(further))
    except ValidationError as refused:
        raise SpecError(
            "The lab file conflicts with tenants added by 'kailab tenant add'",
            evidence=_lines(refused, [tenant.name for tenant in whole.tenants]),
            fix=f"correct the lab file, or run: kailab tenant remove {' · '.join(tenant.name for tenant in further)}",
        ) from None
    return whole


def dump_added(tenants: Sequence[TenantSpec]) -> list[dict[str, Any]]:
    """Tenants as plain data for the state directory, for ``load_added``."""
    return [json.loads(tenant.model_dump_json(by_alias=True)) for tenant in tenants]


def load_added(data: object) -> tuple[TenantSpec, ...]:
    """The tenants that ``dump_added`` wrote; empty for the state of an older kailab. Raises ValueError."""
    if data is None:
        return ()
    if not isinstance(data, list):
        raise ValueError("'added' must be a list")  # noqa: TRY004 - damaged data, not a caller's mistake
    return tuple(TenantSpec.model_validate(item, by_alias=True, by_name=False) for item in data)


def _validated(spec: LabSpec, more: Sequence[Mapping[str, Any]]) -> LabSpec:
    data = json.loads(dump_spec(spec))
    data["tenants"] = [*data["tenants"], *more]
    return LabSpec.model_validate(data, by_alias=True, by_name=False)


def _lines(refused: ValidationError, names: Sequence[str], request: TenantRequest | None = None) -> list[str]:
    """One line per error, with the names of tenants instead of their indices; ``request`` is the last tenant."""
    lines = []
    for error in refused.errors(include_url=False):
        loc, where = error["loc"], ""
        if len(loc) > 1 and loc[0] == "tenants" and isinstance(loc[1], int):
            source = request.source(loc[2:]) if request and loc[1] == len(names) - 1 else ""
            where, loc = f"{source}tenant {names[loc[1]]}: ", loc[2:]
        lines.append(f"{where}{prefix(loc)}{explain(error)}")
    return lines


def _document(file: Path) -> LabFileDocument:
    document = read_document(file.expanduser())
    if document.flaws:
        lines = [f"{file}:{flaw.line}: {prefix(flaw.loc)}{flaw.what}" for flaw in document.flaws]
        raise errors_in(f"{file} is invalid", lines)
    return document
