"""KAI's labels and annotations by what they mean, however a version spells them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict

from lab.kai import VersionLine, line_of, lines

WRITTEN = frozenset({"received_type", "shared_gpu_configmap", "reserved_gpu", "gpu_group", "gpu_groups", "top_owner"})
"""What only KAI itself writes; in a workload file it means nothing."""

NEEDED = frozenset({"fraction", "gpu_memory", "num_devices", "fraction_container", "pod_group"})
"""What a pod cannot go without: leaving it out would make another workload of it."""


@functools.cache
def meanings() -> Mapping[str, str]:
    """Key → the field of ``lab.kai.Keys`` that it is, over the first, tested and last release of all known lines."""
    found: dict[str, str] = {}
    for line in lines().values():
        for version in (line.first, line.version, line.last):
            found.update({key: field for field, key in asdict(line_of(version).keys).items() if key})
    return found


def meaning(key: str) -> str:
    """The field of ``lab.kai.Keys`` that a label or annotation is; empty: none of KAI's."""
    if found := meanings().get(key):
        return found
    prefixes = {prefix for prefix, field in meanings().items() if field == "gpu_groups"}
    return "gpu_groups" if key.startswith(tuple(prefixes)) else ""


def spelled(line: VersionLine, field: str) -> str:
    """The key by which a version calls it; empty: this version has none."""
    return str(getattr(line.keys, field))
