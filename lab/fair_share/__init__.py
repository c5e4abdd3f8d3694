"""KAI's fair share of queues as a pure function of quotas, limits, weights, priorities, requests and past use."""

from lab.fair_share.division import UNLIMITED, Claim, Share, divide
from lab.fair_share.tree import RESOURCES, Amounts, QueueClaim, fair_shares

__all__ = ["RESOURCES", "UNLIMITED", "Amounts", "Claim", "QueueClaim", "Share", "divide", "fair_shares"]
