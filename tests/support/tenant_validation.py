"""A small copy of vCluster's values schema, and the validation errors of a tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.errors import SpecError
from lab.tenants.vcluster.validation import validate_tenants
from tests.support.specs import lab_with, tenant_spec

SWITCH = {"type": "object", "additionalProperties": False, "properties": {"enabled": {"type": "boolean"}}}
OPEN = {"type": "object"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


# Like vCluster's own schema: closed objects and references, for the base values and these tests.
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"Switch": SWITCH},
    **closed(
        experimental=closed(syncSettings=closed(setOwner={"type": "boolean"}), denyProxyRequests={"type": "array"}),
        sync=closed(
            fromHost=closed(
                nodes=closed(enabled={"type": "boolean"}, selector=OPEN),
                priorityClasses={"$ref": "#/$defs/Switch"},
                runtimeClasses={"$ref": "#/$defs/Switch"},
                configMaps=OPEN,
                customResources=OPEN,
            ),
            toHost=OPEN,
        ),
        controlPlane=OPEN,
        exportKubeConfig=OPEN,
        policies=closed(podSecurityStandard={"type": "string"}, resourceQuota=OPEN, limitRange=OPEN),
        sleep=OPEN,
        deploy=OPEN,
        telemetry={"$ref": "#/$defs/Switch"},
    ),
}
DEFAULTS = {
    "controlPlane": {"statefulSet": {"highAvailability": {"replicas": 1}}},
    "sync": {"fromHost": {"nodes": {"enabled": False}}},
}


def problems(chart: Path, mode: str = "host-kai", **more: Any) -> list[str]:
    """Return a tenant's validation errors, one line each, without its name."""
    try:
        validate_tenants(lab_with(tenant_spec(mode, **more)), chart)
    except SpecError as error:
        lines = error.evidence or (error.what,)
        assert all(line.startswith("tenant team-a: ") for line in lines)
        return [line.removeprefix("tenant team-a: ") for line in lines]
    return []
