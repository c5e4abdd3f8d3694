"""The kind cluster: configuration, creation, start after a stop, deletion."""

from lab.steps.cluster.step import KindCluster

__all__ = ["KindCluster"]
