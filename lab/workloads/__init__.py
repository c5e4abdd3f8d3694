"""Workloads for suites and demos: pods, controllers, their namespaces and the probe."""
