"""A small Kubernetes client over plain objects. Only ``http`` imports ``kubernetes``, at the first request."""

from __future__ import annotations

from lab.kube.api import OWNER_LABEL
from lab.kube.client import Cluster
from lab.kube.transport import Transport
from lab.objects.redact import redact

__all__ = ["OWNER_LABEL", "Cluster", "Transport", "redact"]
