"""The Kubernetes API: a small client over plain objects, frozen views, and waits.

Nothing outside this room imports ``kubernetes``, and the room itself only when the first request is made.
"""

from __future__ import annotations

from lab.kube.api import OWNER_LABEL
from lab.kube.client import Cluster
from lab.kube.transport import Transport
from lab.objects.redact import redact

__all__ = ["OWNER_LABEL", "Cluster", "Transport", "redact"]
