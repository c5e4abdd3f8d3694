"""Facts of a machine as JSON that may be kept: what names its owner or its hardware is replaced. And back again.

With the facts of a real machine a test can ask every pure decision (doctor, choice of strategy, mounts) as on it.
"""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lab.host.facts import HostFacts
from lab.host.nvidia.discovery import NvidiaFacts
from lab.serialization import to_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")


def portable(
    host: HostFacts, nvidia: NvidiaFacts, home: Path | None = None, machine: str | None = None
) -> dict[str, Any]:
    """The facts as plain data, without home directory, host name and the GPUs' own UUIDs.

    UUIDs become numbers in the order in which they appear, the same one everywhere.

    Args:
        host: facts of the machine.
        nvidia: facts of its GPUs.
        home: the home directory; this user's unless told.
        machine: the host name; this machine's unless told.
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


def facts_from(data: Mapping[str, Any]) -> tuple[HostFacts, NvidiaFacts]:
    """The facts that ``portable`` wrote. Raises pydantic's ValidationError for what are no such facts."""
    host = dict(data["host"])
    if host.get("go"):
        host["go"] = [int(part) for part in str(host["go"]).split(".")]
    return _adapter(HostFacts).validate_python(host), _adapter(NvidiaFacts).validate_python(data["nvidia"])


@functools.cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _walk(value: Any, scrub: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {_walk(key, scrub): _walk(inner, scrub) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(inner, scrub) for inner in value]
    return value
