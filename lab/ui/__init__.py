"""Faces of a run: subscribers that draw events, on stderr; stdout stays free for results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TextIO

from lab.engine.events import Bus, Event
from lab.errors import SpecError

MODES = ("auto", "board", "plain", "github", "gitlab", "json")


class Renderer(Protocol):
    """Draws events; ``close`` gives the terminal back and may be called twice."""

    def __call__(self, event: Event) -> None:
        """Take one event."""
        ...

    def close(self) -> None:
        """Stop drawing."""
        ...


def choose(stream: TextIO, env: Mapping[str, str]) -> str:
    """The face for ``stream``: the CI system's, a board on a terminal, plain lines elsewhere."""
    if env.get("GITHUB_ACTIONS") == "true":
        return "github"
    if env.get("GITLAB_CI"):
        return "gitlab"
    return "board" if stream.isatty() and env.get("TERM", "") not in ("", "dumb") else "plain"


@contextmanager
def attach(
    bus: Bus, mode: str = "auto", stream: TextIO | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Renderer]:
    """Draw the events of ``bus`` while the context lasts.

    Args:
        bus: where the events come from.
        mode: the face; auto chooses by stream and environment.
        stream: where to draw; stderr when None.
        env: the environment; this process's when None.

    Raises:
        SpecError: there is no such mode.
    """
    if mode not in MODES:
        raise SpecError(f"no face is called {mode!r}", fix=f"take one of: {', '.join(MODES)}")
    stream = sys.stderr if stream is None else stream
    env = os.environ if env is None else env
    face = _make(choose(stream, env) if mode == "auto" else mode, stream, env)
    stop = bus.subscribe(face)
    try:
        yield face
    finally:
        stop()
        face.close()


def _make(mode: str, stream: TextIO, env: Mapping[str, str]) -> Renderer:
    """Import only the face that is used: rich alone costs a good part of the start-up time."""
    if mode == "board":
        from lab.ui.board import Board

        return Board(stream)
    if mode == "json":
        from lab.ui.jsonl import JsonLines

        return JsonLines(stream)
    if mode in ("github", "gitlab"):
        from lab.ui.ci import GitHub, GitLab

        faces: dict[str, Callable[[], Renderer]] = {
            "github": lambda: GitHub(stream, env.get("GITHUB_STEP_SUMMARY")),
            "gitlab": lambda: GitLab(stream),
        }
        return faces[mode]()
    from lab.ui.plain import Plain

    return Plain(stream)
