"""The meaning of KAI's labels and annotations, in the spelling of every version."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict

from lab.kai import VersionLine, line_of, lines

WRITTEN = frozenset({"received_type", "shared_gpu_configmap", "reserved_gpu", "gpu_group", "gpu_groups", "top_owner"})
"""Keys that only KAI writes; they have no meaning in a workload file."""

NEEDED = frozenset({"fraction", "gpu_memory", "num_devices", "fraction_container", "pod_group"})
"""Keys without which a workload would be a different one."""


@functools.cache
def meanings() -> Mapping[str, str]:
    """Key → its field of ``lab.kai.Keys``, from the first, tested and last release of all known lines."""
    found: dict[str, str] = {}
    for line in lines().values():
        for version in (line.first, line.version, line.last):
            found.update({key: field for field, key in asdict(line_of(version).keys).items() if key})
    return found


def meaning(key: str) -> str:
    """The field of ``lab.kai.Keys`` of a label or annotation; empty for keys that are not KAI's."""
    if found := meanings().get(key):
        return found
    prefixes = {prefix for prefix, field in meanings().items() if field == "gpu_groups"}
    return "gpu_groups" if key.startswith(tuple(prefixes)) else ""


def spelled(line: VersionLine, field: str) -> str:
    """The key of a field in a version; empty if the version does not have it."""
    return str(getattr(line.keys, field))
