"""NVIDIA KAI Scheduler on the lab's own cluster: values, and the step that installs it. Versions are in lab.kai."""

from __future__ import annotations

from lab.config import LabSpec
from lab.errors import Unavailable
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


def kai_steps(spec: LabSpec, available: bool) -> list[Kai]:
    """The step that installs KAI; none where the lab file does without, or ``auto`` has to.

    Args:
        spec: the lab file.
        available: the chart and all images can be had.

    Raises:
        SpecError: that KAI version is older than all that the lab knows.
        Unavailable: the lab file says ``scheduler: kai``, and it cannot be had.
    """
    if not wanted(spec) or (spec.scheduler == "auto" and not available):
        return []
    if not available:
        raise Unavailable(
            f"KAI {spec.kai.version} cannot be had, and the lab file says scheduler: kai",
            fix="give a bundle (--bundle FILE) or a registry mirror that has it, or take scheduler: auto",
        )
    return [Kai(spec)]
