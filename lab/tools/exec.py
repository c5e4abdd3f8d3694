"""Replaces this process with another program, which then owns the terminal, the signals and the exit code."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import NoReturn

from lab.errors import CommandFailed


def replace_process(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Execute another program in place of this one, with ``env`` added to the environment.

    Unlike ``lab.tools.process`` it captures nothing: a user's shell or editor needs the terminal itself. Raises
    CommandFailed when the program is not installed or cannot be executed.
    """
    program = shutil.which(argv[0])
    if program is None:
        raise CommandFailed(argv, 127, why=f"{argv[0]} is not installed (not in PATH)")
    try:
        os.execve(program, list(argv), {**os.environ, **env})  # noqa: S606 - no shell on purpose
    except OSError as error:
        raise CommandFailed(argv, 126, why=f"{argv[0]} cannot be started: {error.strerror}") from error
