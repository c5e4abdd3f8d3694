"""Runs the same workload in two tenants and compares them: start times, placement, evictions, labels and annotations.

``compare`` runs it; ``measure`` and ``annotation_diff`` are pure and use what ``record`` saw.
"""

from lab.compare.compare import compare
from lab.compare.model import Comparison

__all__ = ["Comparison", "compare"]
