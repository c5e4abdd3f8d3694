"""Signs and letters of a GPU map, for the terminal and the report's page."""

from __future__ import annotations

import string
from collections.abc import Mapping
from types import MappingProxyType

from lab.gpu.map.model import GpuMap, GpuState
from lab.text import count

MANY = 16
"""Number of GPUs above which a drawing folds the single GPUs."""

STRIP = 8
"""Number of GPUs above which a drawing starts with one sign per GPU."""

SIGNS: Mapping[GpuState, tuple[str, str]] = MappingProxyType(
    {
        GpuState.FREE: ("○", "."),
        GpuState.SHARED: ("◐", "%"),
        GpuState.WHOLE: ("●", "#"),
        GpuState.OVER: ("✗", "X"),
        GpuState.UNHEALTHY: ("!", "!"),
    }
)
"""Sign of each state, in Unicode and in ASCII."""


def letter(number: int) -> str:
    """Letter of a GPU's n-th pod, from 0; after ``z`` only plus signs."""
    return string.ascii_lowercase[number] if number < len(string.ascii_lowercase) else "+"


def total(gpus: GpuMap) -> str:
    """``4 GPUs on 2 nodes``."""
    return f"{count(len(gpus.gpus), 'GPU')} on {count(len(gpus.nodes), 'node')}"
