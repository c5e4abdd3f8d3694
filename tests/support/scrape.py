"""Metrics as a test reads them."""

from __future__ import annotations


def scraped(text: str) -> dict[str, float]:
    """The series of a text in Prometheus' format: name with labels, as written, → value."""
    rows = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}
