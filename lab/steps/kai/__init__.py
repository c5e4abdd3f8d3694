"""NVIDIA KAI Scheduler on the lab's own cluster: values, and the step that installs it. Versions are in lab.kai."""

from __future__ import annotations

from lab.config import LabSpec
from lab.kai.names import KAI_CHART
from lab.steps.kai.step import Kai
from lab.steps.kai.values import kai_images

__all__ = ["Kai", "charts", "images", "kai_steps", "wanted"]


def wanted(spec: LabSpec) -> bool:
    """Whether the lab file asks for KAI, be it only where it can be had."""
    return spec.scheduler != "default"


def images(spec: LabSpec) -> tuple[str, ...]:
    """The images KAI needs in the nodes, as full references. Raises SpecError: too old a version."""
    return kai_images(spec) if wanted(spec) else ()


def charts(spec: LabSpec) -> tuple[str, ...]:
    """The charts KAI needs, by their name in the supply."""
    return (KAI_CHART,) if wanted(spec) else ()


def kai_steps(spec: LabSpec) -> list[Kai]:
    """The step that installs KAI; none where the default scheduler runs. ``auto`` is resolved by now."""
    return [Kai(spec)] if spec.scheduler == "kai" else []
