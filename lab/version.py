"""The version of kailab."""

from __future__ import annotations

import contextlib
import importlib

VERSION: str = "0.1.0.dev0"  # of a checkout that was never installed
with contextlib.suppress(ImportError):  # the build writes this module, with the version from git's tags
    VERSION = importlib.import_module("lab._version").VERSION
