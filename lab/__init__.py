"""kailab: an end-to-end lab for GPU scheduling on Kubernetes.

The names a user of the library needs are here; they are loaded on first use so that ``lab --help`` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.api import Lab
    from lab.config import LabSpec, load_spec
    from lab.errors import LabError

__all__ = ["Lab", "LabError", "LabSpec", "__version__", "load_spec"]
__version__ = "0.1.0"

_HOMES = {"Lab": "lab.api", "LabError": "lab.errors", "LabSpec": "lab.config", "load_spec": "lab.config"}


def __getattr__(name: str) -> Any:
    """Import a public name from its room when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lab' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
