"""NVIDIA KAI Scheduler by version: the differences between versions as data, one file per version line."""

from lab.kai.choice import line_of, lines
from lab.kai.model import Defect, HelmKeys, Keys, VersionLine
from lab.kai.number import release

__all__ = ["Defect", "HelmKeys", "Keys", "VersionLine", "line_of", "lines", "release"]
