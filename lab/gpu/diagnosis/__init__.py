"""Diagnosis of the GPU path: checks of each stage from the host's driver to the pod."""
