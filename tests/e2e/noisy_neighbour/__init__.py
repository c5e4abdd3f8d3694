"""Noisy neighbour: faults of one tenant, and a monitor of what the other users of the cluster notice."""
