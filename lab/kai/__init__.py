"""NVIDIA KAI Scheduler by version: the differences between versions as data, one file per version line."""

from lab.kai.files import cured_in, known_defects, line_of, lines, version_of
from lab.kai.model import Defect, HelmKeys, Keys, VersionLine, release

__all__ = [
    "Defect",
    "HelmKeys",
    "Keys",
    "VersionLine",
    "cured_in",
    "known_defects",
    "line_of",
    "lines",
    "release",
    "version_of",
]
