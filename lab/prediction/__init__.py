"""A model of KAI's decision for pending workloads, over a snapshot of a cluster."""

from lab.prediction.answer import Answer, EvictedPod, answers
from lab.prediction.manifests import Workload, workloads
from lab.prediction.reading import World, read_world

__all__ = ["Answer", "EvictedPod", "Workload", "World", "answers", "read_world", "workloads"]
