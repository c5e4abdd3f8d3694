"""What the parts of the plugin share about a run. Loaded into every pytest run, so it imports nothing but pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab.session.lab import Lab
    from lab.workloads.namespace import WorkloadNamespace

NEEDS = ("kai", "gpus", "tenants", "nvidia")
"""What ``--lab-require`` can insist on; each but ``nvidia`` (real GPUs) is a marker too."""

ATTACHED: pytest.StashKey[Lab] = pytest.StashKey()
"""On the config: the lab, once something has used it."""

PLACES: pytest.StashKey[list[WorkloadNamespace]] = pytest.StashKey()
"""On a test: where it puts its pods."""


def required(config: pytest.Config) -> set[str]:
    """What ``--lab-require`` insists on."""
    return {word.strip() for word in str(config.getoption("lab_require")).split(",") if word.strip()}
