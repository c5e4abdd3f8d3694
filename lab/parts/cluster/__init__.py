"""The kind cluster: configuration, creation, start after a stop, deletion."""

from lab.parts.cluster.steps import KindCluster

__all__ = ["KindCluster"]
