"""The handle on one lab: its saved state, its clusters and the context of its steps."""
