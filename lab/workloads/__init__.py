"""Pods and controllers to schedule, the namespaces they run in, and the probe that runs in them."""
