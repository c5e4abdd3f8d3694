"""Live displays of a run on stderr, and results as text on stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TextIO

from lab.engine.events import Bus, Event
from lab.errors import SpecError
from lab.serialization import to_json

MODES = ("auto", "board", "plain", "github", "gitlab", "json")


class Renderer(Protocol):
    """Draws events; ``close`` restores the terminal and may be called twice."""

    def __call__(self, event: Event) -> None:
        """Draw an event."""
        ...

    def close(self) -> None:
        """Stop drawing."""
        ...


class JsonLines:
    """Writes each event as a line of ASCII JSON; ``event`` names its kind."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self._stream.write(json.dumps(to_json(event)) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Do nothing: there is no terminal state to restore."""


def choose(stream: TextIO, env: Mapping[str, str]) -> str:
    """The display for ``stream``: the CI system's, the board on a terminal, else plain lines."""
    if env.get("GITHUB_ACTIONS") == "true":
        return "github"
    if env.get("GITLAB_CI"):
        return "gitlab"
    return "board" if stream.isatty() and env.get("TERM", "") not in ("", "dumb") else "plain"


@contextmanager
def attach(
    bus: Bus, mode: str = "auto", stream: TextIO | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Renderer]:
    """Draw the events of ``bus`` on ``stream`` (default: stderr) during the context. Raises SpecError."""
    if mode not in MODES:
        raise SpecError(f"--ui {mode}: no such display", fix=f"use one of: {', '.join(MODES)}")
    stream = sys.stderr if stream is None else stream
    env = os.environ if env is None else env
    display = _create(choose(stream, env) if mode == "auto" else mode, stream, env)
    stop = bus.subscribe(display)
    try:
        yield display
    finally:
        stop()
        display.close()


def _create(mode: str, stream: TextIO, env: Mapping[str, str]) -> Renderer:
    """Import only the display that is used: rich takes a large part of the start-up time."""
    match mode:
        case "board":
            from lab.ui.board import Board

            return Board(stream)
        case "json":
            return JsonLines(stream)
        case "github" | "gitlab":
            from lab.ui.ci import GitHub, GitLab

            return GitLab(stream) if mode == "gitlab" else GitHub(stream, env.get("GITHUB_STEP_SUMMARY"))
    from lab.ui.plain import Plain

    return Plain(stream)
