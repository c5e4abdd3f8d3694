"""Simulated GPUs: NVML and device files in the nodes, everything above them real."""
