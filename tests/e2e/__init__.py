"""Suites against a lab that is up: ``nox -s e2e``, or ``pytest tests/e2e``."""
