"""The GPU map: pods and their GPUs."""
