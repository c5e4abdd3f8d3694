"""Takes secrets out of text before a report or an artifact keeps it."""

from __future__ import annotations

from lab.objects.redact import redact_text as scrub

__all__ = ["scrub"]
