"""Events as lines of JSON, for programs."""

from __future__ import annotations

import json
from typing import TextIO

from lab.engine.events import Event
from lab.serialization import to_json


class JsonLines:
    """Writes each event as a line of ASCII JSON; ``event`` names its kind."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self._stream.write(json.dumps(to_json(event)) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: there is no terminal state to restore."""
