"""Reads the facts that ``kailab doctor --json`` prints, so that tests can decide as on the machine they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from lab.host.facts import HostFacts
from lab.host.nvidia.discovery import NvidiaFacts


def facts_from(data: Mapping[str, Any]) -> tuple[HostFacts, NvidiaFacts]:
    """The facts that ``portable`` wrote. Raises pydantic's ValidationError for other data."""
    host = dict(data["host"])
    if host.get("go"):
        host["go"] = [int(part) for part in str(host["go"]).split(".")]
    return TypeAdapter(HostFacts).validate_python(host), TypeAdapter(NvidiaFacts).validate_python(data["nvidia"])
