"""The same workload in two tenants, side by side: when pods start, where they land, who is evicted, what is written.

``compare`` runs it; ``measure`` and ``written`` are pure and work on what ``record`` saw.
"""

from lab.compare.compare import compare
from lab.compare.model import Comparison

__all__ = ["Comparison", "compare"]
