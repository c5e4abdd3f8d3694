"""NVIDIA KAI Scheduler on the lab's own cluster: values and the step that installs it. Versions are in lab.kai."""

from __future__ import annotations

from lab.config import LabSpec
from lab.kai.names import KAI_CHART
from lab.steps.kai.adopted import AdoptedKai, AdoptedSettings, adopted_settings, find_kai
from lab.steps.kai.step import Kai
from lab.steps.kai.values import kai_images

__all__ = ["AdoptedSettings", "Kai", "adopted_settings", "charts", "find_kai", "images", "kai_steps", "wanted"]


def wanted(spec: LabSpec) -> bool:
    """Whether the lab file wants the lab to install KAI, at least if available."""
    return spec.scheduler != "default" and spec.kai.manage == "install"


def images(spec: LabSpec) -> tuple[str, ...]:
    """References of the images that KAI needs in the nodes. Raises SpecError if the version is too old."""
    return kai_images(spec) if wanted(spec) else ()


def charts(spec: LabSpec) -> tuple[str, ...]:
    """Names of KAI's charts in the supply."""
    return (KAI_CHART,) if wanted(spec) else ()


def kai_steps(spec: LabSpec) -> list[Kai | AdoptedKai]:
    """The step, if the lab has KAI; ``auto`` must be resolved."""
    if spec.scheduler != "kai":
        return []
    return [AdoptedKai(spec) if spec.kai.manage == "adopt" else Kai(spec)]
