"""The log of programs in a cluster: one line of JSON for each event."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TextIO

from lab.serialization import to_json


class JsonLog:
    """Writes each event as one line of JSON."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: str, **fields: object) -> None:
        row = {"time": datetime.now(UTC), "event": event, **fields}
        self._stream.write(json.dumps(to_json(row)) + "\n")
        self._stream.flush()


def stdout_log() -> JsonLog:
    """The log of a container."""
    return JsonLog(sys.stdout)
