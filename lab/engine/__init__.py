"""The engine: observes, applies, verifies and undoes steps it knows only by their protocol."""
