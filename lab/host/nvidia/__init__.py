"""Real NVIDIA GPUs of this machine: discovery, strategies for passing them to nodes, and the fixes these need."""
