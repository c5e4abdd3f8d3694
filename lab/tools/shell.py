"""The one door for processes; the only importer of ``sh``.

``Runner`` is what everything above asks for; ``HostRunner`` runs on this machine, and unit tests pass a strict fake.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lab.errors import CommandFailed, Interrupted

OnLine = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What a command gave back; ``seconds`` of wall time."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float = 0.0


class Runner(Protocol):
    """Runs commands."""

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float | None = None,
        check: bool = True,
        on_line: OnLine | None = None,
    ) -> Result:
        """Run ``argv`` and wait for it.

        Args:
            argv: program and arguments; nothing is given to a shell.
            stdin: what the program reads; nothing when None.
            env: added to this process's environment.
            cwd: working directory.
            timeout: seconds after which the process group gets SIGTERM, then SIGKILL.
            check: raise on a non-zero status.
            on_line: called with each line of stdout and stderr as it comes.

        Raises:
            CommandFailed: the program is missing, timed out, or (with ``check``) ended with a non-zero status.
            Interrupted: the run was cancelled.
        """
        ...

    def which(self, name: str) -> Path | None:
        """The program's path, or None."""
        ...


class HostRunner:
    """Runs commands on this machine and ends them when ``cancel`` is set.

    Args:
        cancel: shared token; running commands get SIGTERM when it is set, SIGKILL after ``grace`` seconds.
        log: file that gets every command, its output, status and time.
        grace: seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self, cancel: threading.Event | None = None, log: Path | None = None, *, grace: float = 20.0
    ) -> None:
        self.cancel = cancel or threading.Event()
        self.log = log
        self.grace = grace
        self._log_lock = threading.Lock()

    def which(self, name: str) -> Path | None:
        """The program's path, or None."""
        found = shutil.which(name)
        return Path(found) if found else None

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float | None = None,
        check: bool = True,
        on_line: OnLine | None = None,
    ) -> Result:
        """See Runner.run."""
        import sh  # noqa: TID251 - this is the door

        words = tuple(str(word) for word in argv)
        if self.cancel.is_set():
            raise Interrupted(f"not started: {shlex.join(words)}")
        if (self.which(words[0]) if "/" not in words[0] else Path(words[0])) in (None, Path()):
            raise CommandFailed(words, 127, why=f"{words[0]} is not installed (not in PATH)")
        out: list[str] = []
        err: list[str] = []

        def take(into: list[str]) -> Callable[[str], None]:
            def line(text: str) -> None:
                into.append(text)
                if on_line is not None:
                    on_line(text.rstrip("\n"))

            return line

        options: dict[str, Any] = {
            "_bg": True, "_bg_exc": False, "_tty_out": False, "_truncate_exc": False, "_no_out": True,
            "_no_err": True, "_no_pipe": True, "_ok_code": list(range(-64, 256)), "_return_cmd": True,
            "_new_session": True,
            "_out": take(out), "_err": take(err), "_decode_errors": "replace", "_encoding": "utf-8",
            "_in": stdin if stdin is not None else "",
        }  # fmt: skip
        if env is not None:
            options["_env"] = {**os.environ, **env}
        if cwd is not None:
            options["_cwd"] = str(cwd)
        start = time.monotonic()
        ended = threading.Event()
        options["_done"] = lambda *_: ended.set()
        try:
            process = sh.Command(words[0])(*words[1:], **options)
        except (sh.CommandNotFound, sh.ForkException, OSError) as error:
            raise CommandFailed(words, 127, why=f"{words[0]} cannot be started: {error}") from error
        timed_out = self._watch(process, ended, start, timeout)
        process.wait()
        code = self._status(process)
        result = Result(words, code, "".join(out), "".join(err), time.monotonic() - start)
        self._write_log(result)
        if self.cancel.is_set() and code != 0:
            raise Interrupted(f"ended by the interrupt: {shlex.join(words)}")
        if timed_out:
            raise CommandFailed(
                words, code, result.out, result.err, why=f"{words[0]} did not end within {timeout:.0f} s"
            )
        if check and code != 0:
            raise CommandFailed(words, code, result.out, result.err)
        return result

    def _watch(self, process: Any, ended: threading.Event, start: float, timeout: float | None) -> bool:
        """Wait until the process ends; end it on cancel or timeout. Returns whether it timed out."""
        asked_at = 0.0
        timed_out = False
        while not ended.wait(0.1):
            now = time.monotonic()
            late = timeout is not None and now - start > timeout
            if not asked_at and (late or self.cancel.is_set()):
                timed_out = late and not self.cancel.is_set()
                asked_at = now
                _signal(process, signal.SIGTERM)
            elif asked_at and now - asked_at > self.grace:
                _signal(process, signal.SIGKILL)
        return timed_out

    @staticmethod
    def _status(process: Any) -> int:
        code = process.exit_code
        return int(code) if code is not None else 1

    def _write_log(self, result: Result) -> None:
        if self.log is None or not self.log.parent.is_dir():
            return
        text = f"$ {shlex.join(result.argv)}\n{result.out}{result.err}[{result.code}] {result.seconds:.2f}s\n"
        with self._log_lock, self.log.open("a", errors="replace") as file:
            file.write(text)


def _signal(process: Any, number: int) -> None:
    try:
        process.signal_group(number)
    except (ProcessLookupError, OSError):
        return
