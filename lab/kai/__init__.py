"""NVIDIA KAI Scheduler by version: the differences between versions as data, one file per version line."""

from lab.kai.files import line_of, lines
from lab.kai.model import Defect, HelmKeys, Keys, VersionLine, release

__all__ = ["Defect", "HelmKeys", "Keys", "VersionLine", "line_of", "lines", "release"]
