"""The version of kailab, the same as in pyproject.toml."""

from __future__ import annotations

VERSION = "0.1.0"
