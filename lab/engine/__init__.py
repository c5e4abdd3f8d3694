"""The engine: observes, applies, verifies and undoes steps through the ``Step`` protocol."""
