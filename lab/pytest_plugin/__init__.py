"""The pytest plugin: options, fixtures, test scheduling, invariants and the HTML report."""
