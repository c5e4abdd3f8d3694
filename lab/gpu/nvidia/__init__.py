"""The machine's own NVIDIA GPUs, given to nodes of the lab."""
