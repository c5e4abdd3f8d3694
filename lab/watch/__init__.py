"""Watches a live KAI from inside its cluster: invariants as Prometheus metrics, and a canary pod for each queue.

The container runs ``python3 -m lab.watch``. It imports neither pydantic nor the Kubernetes client library, so that its
image is small: Python, urllib3 and tenacity.
"""
