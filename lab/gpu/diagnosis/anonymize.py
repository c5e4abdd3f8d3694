"""Facts of a machine as JSON that can be shared: without the names of its owner and its hardware."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lab.host.facts import HostFacts
from lab.host.nvidia.discovery import NvidiaFacts
from lab.serialization import to_json

_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")


def portable(
    host: HostFacts, nvidia: NvidiaFacts, home: Path | None = None, machine: str | None = None
) -> dict[str, Any]:
    """Return the facts as plain data, without home directory, host name and UUIDs of GPUs (by default this machine's).

    UUIDs become numbers in the order in which they appear, the same one everywhere.
    """
    numbers: dict[str, str] = {}

    def uuid(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"{match[1]}-00000000-0000-4000-8000-{len(numbers):012d}")

    place, name = str(home or Path.home()), machine or platform.node()

    def scrub(text: str) -> str:
        text = _UUID.sub(uuid, text.replace(place, "~") if len(place) > 1 else text)
        return re.sub(rf"\b{re.escape(name)}\b", "host", text) if name not in ("", "localhost") else text

    data: dict[str, Any] = _walk(to_json({"host": host, "nvidia": nvidia}), scrub)
    return data


def _walk(value: Any, scrub: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {_walk(key, scrub): _walk(inner, scrub) for key, inner in value.items()}
    return [_walk(inner, scrub) for inner in value] if isinstance(value, list) else value
