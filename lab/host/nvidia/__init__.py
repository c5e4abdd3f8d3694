"""Real NVIDIA GPUs of this machine: what is there, how they can get into nodes, and what has to change for it."""
