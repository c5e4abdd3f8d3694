"""kailab: an end-to-end lab for GPU scheduling on Kubernetes.

The public names are imported on first use, so that ``kailab --help`` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.version import VERSION

if TYPE_CHECKING:
    from lab.config import LabSpec, load_spec
    from lab.errors import LabError
    from lab.operations.down import down
    from lab.operations.prepare import plan
    from lab.operations.status import status
    from lab.operations.up import up
    from lab.session.lab import Lab

__all__ = ["Lab", "LabError", "LabSpec", "__version__", "down", "load_spec", "plan", "status", "up"]
__version__ = VERSION

_HOMES = {
    "Lab": "lab.session.lab",
    "LabError": "lab.errors",
    "LabSpec": "lab.config",
    "down": "lab.operations.down",
    "load_spec": "lab.config",
    "plan": "lab.operations.prepare",
    "status": "lab.operations.status",
    "up": "lab.operations.up",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its package on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lab' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
