"""Frozen views of Kubernetes and KAI objects."""
