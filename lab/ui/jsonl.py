"""The face for programs: one event per line as JSON, in the order they happened."""

from __future__ import annotations

import json
from typing import TextIO

from lab.engine.events import Event
from lab.serialization import to_json


class JsonLines:
    """Writes each event as one line of ASCII JSON and flushes it; ``event`` names its kind."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self._stream.write(json.dumps(to_json(event)) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Nothing to give back."""
