"""Hands this process over to another program, which then has the terminal, the signals and the exit code."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import NoReturn

from lab.errors import CommandFailed


def hand_over(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Become another program; nothing after this runs.

    Unlike ``lab.tools.process`` it captures nothing: a shell or an editor of the user's must have the terminal itself.

    Args:
        argv: program and arguments; nothing is given to a shell.
        env: added to this process's environment.

    Raises:
        CommandFailed: the program is not installed or cannot be executed.
    """
    program = shutil.which(argv[0])
    if program is None:
        raise CommandFailed(argv, 127, why=f"{argv[0]} is not installed (not in PATH)")
    try:
        os.execve(program, list(argv), {**os.environ, **env})  # noqa: S606 - no shell on purpose
    except OSError as error:
        raise CommandFailed(argv, 126, why=f"{argv[0]} cannot be started: {error.strerror}") from error
