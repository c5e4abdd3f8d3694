"""Run state that the plugin's modules share. Every pytest run imports this module, so it imports only pytest."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab.session.lab import Lab
    from lab.workloads.namespace import WorkloadNamespace

NEEDS = ("kai", "gpus", "tenants", "nvidia")
"""Values of ``--lab-require``; each but ``nvidia`` (real GPUs) is also a marker."""

ATTACHED: pytest.StashKey[Lab] = pytest.StashKey()
"""On the config: the lab, once a test or hook has attached to it."""

NAMESPACES: pytest.StashKey[list[WorkloadNamespace]] = pytest.StashKey()
"""On a test: the namespaces that its pods run in."""

KEPT: pytest.StashKey[bool] = pytest.StashKey()
"""On a test: it failed, and ``--lab-keep=failed`` keeps its namespaces."""

PROBE_LACKING: pytest.StashKey[str] = pytest.StashKey()
"""On the config: why the cluster cannot start the suites' pods, empty if it can, once a test has asked."""

REMOVED: pytest.StashKey[list[str]] = pytest.StashKey()
"""On the config: what this process removed of killed ones, once it has looked."""


def required(config: pytest.Config) -> set[str]:
    """Values of ``--lab-require``."""
    return {word.strip() for word in str(config.getoption("lab_require") or "").split(",") if word.strip()}


def uses(item: pytest.Item, fixture: str) -> bool:
    """Whether a test uses a fixture, directly or through another one."""
    return fixture in getattr(item, "fixturenames", ())


def warn_renamed(old: str, new: str) -> None:
    """Emit the DeprecationWarning of a renamed fixture."""
    warnings.warn(f"fixture '{old}' is deprecated: use '{new}'", DeprecationWarning, stacklevel=2)
