"""Runs processes: the ``Runner`` protocol and ``HostRunner``, the only importer of ``sh``."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from lab.errors import CommandFailed, Interrupted
from lab.files import append_private
from lab.objects.redact import redact_text
from lab.tools.processes import STARTED, groups_of, has_living

OnLine = Callable[[str], None]
Send = Callable[[Collection[int], int], None]
"""Sends a signal (the second argument) to process groups."""

_STARTS = threading.Lock()
"""One process is started at a time: filelock 4 refuses os.fork while another thread forks, with a RuntimeError. Seen
with Python 3.12 and 3.13."""


@dataclass(frozen=True)
class Result:
    """Output and exit status of a command; ``seconds`` of wall time."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float = 0.0


class Runner(Protocol):
    """Runs commands; unit tests pass a strict fake."""

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
        """Run a program without a shell, and wait for it; ``env`` is added to this process's environment.

        After ``timeout`` seconds its process group gets SIGTERM, then SIGKILL. ``on_line`` is called with each line of
        stdout and stderr as it comes. Raises CommandFailed when the program is missing, times out or (with ``check``)
        ends with another status than 0, and Interrupted when the run is cancelled.
        """
        ...

    def which(self, name: str) -> Path | None:
        """Path of a program in PATH, or None."""
        ...

    def stopped(self) -> bool:
        """Whether the run was cancelled."""
        ...


def output_of(run: Runner, *argv: str | Path, timeout: float = 10) -> str:
    """Stdout of a query, whatever its status; empty if it cannot be run or times out."""
    try:
        return run.run(argv, check=False, timeout=timeout).out
    except CommandFailed:
        return ""


class HostRunner:
    """Runs commands on this machine.

    When ``cancel`` is set, no more commands start; running ones get SIGTERM, and SIGKILL after ``grace`` seconds. The
    file ``log`` gets every command with its output, status and time. Log and errors are without secrets.
    """

    def __init__(self, cancel: threading.Event | None = None, log: Path | None = None, *, grace: float = 20.0) -> None:
        self.cancel = cancel or threading.Event()
        self.log = log
        self.grace = grace
        self._log_lock = threading.Lock()

    def which(self, name: str) -> Path | None:
        found = shutil.which(name)
        return Path(found) if found else None

    def stopped(self) -> bool:
        return self.cancel.is_set()

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
        import sh  # noqa: TID251 - this is the door

        words = tuple(str(word) for word in argv)
        if self.cancel.is_set():
            raise Interrupted(f"not started after an interrupt: {_shown(words)}")
        if (self.which(words[0]) if "/" not in words[0] else Path(words[0])) in (None, Path()):
            raise CommandFailed(words, 127, why=f"{words[0]} is not installed (not in PATH)")
        out: list[str] = []
        err: list[str] = []
        broken: list[Exception] = []

        def collect(into: list[str]) -> Callable[[str], None]:
            def line(text: str) -> None:
                into.append(text)
                if on_line is None or broken:
                    return
                try:
                    on_line(text.rstrip("\n"))
                except Exception as error:  # noqa: BLE001 - in sh's thread it would stop reading
                    broken.append(error)

            return line

        by_sudo = Path(words[0]).name == "sudo"
        options: dict[str, Any] = {
            "_bg": True,
            "_bg_exc": False,
            "_tty_out": False,
            "_truncate_exc": False,
            "_no_out": True,
            "_no_err": True,
            "_no_pipe": True,
            "_ok_code": list(range(-64, 256)),
            "_return_cmd": True,
            # sudo finds the password that was typed before only in the session of that terminal
            "_new_session": not by_sudo,
            "_new_group": by_sudo,
            "_preexec_fn": _die_with_parent,
            "_out": collect(out),
            "_err": collect(err),
            "_decode_errors": "replace",
            "_encoding": "utf-8",
            "_env": {**os.environ, **(env or {}), STARTED: "1"},
        }
        if cwd is not None:
            if not cwd.is_dir():
                raise CommandFailed(words, 127, why=f"{words[0]} cannot be started: directory {cwd} does not exist")
            options["_cwd"] = str(cwd)
        start = time.monotonic()
        try:
            # A file needs no thread and no chunks of 1 KiB as sh's pipe does, and takes both text and bytes.
            with tempfile.TemporaryFile() as stdin_file:
                stdin_file.write(stdin.encode() if isinstance(stdin, str) else stdin or b"")
                stdin_file.seek(0)
                with _STARTS:
                    process = sh.Command(words[0])(*words[1:], _in=stdin_file, **options)
        except sh.CommandNotFound as error:
            raise CommandFailed(words, 127, why=f"{words[0]} is not an executable program") from error
        except (sh.ForkException, OSError) as error:
            cause = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            raise CommandFailed(words, 127, why=f"{words[0]} cannot be started: {cause[0].strip()}") from error
        timed_out = self._watch(process, start, timeout, broken, _signal_as_root if by_sudo else _signal)
        code = int(process.exit_code)
        result = Result(words, code, "".join(out), "".join(err), time.monotonic() - start)
        self._write_log(result)
        if broken:
            raise broken[0]
        if self.cancel.is_set() and code != 0:
            raise Interrupted(f"ended by the interrupt: {_shown(words)}")
        if timed_out or (check and code != 0):
            why = f"{words[0]} was ended by signal {-code}" if code < 0 else ""
            if timed_out:
                why = f"{words[0]} did not end within {timeout:g} s"
            clean = tuple(redact_text(word) for word in words)
            raise CommandFailed(clean, code, redact_text(result.out), redact_text(result.err), why=why)
        return result

    def _watch(
        self, process: Any, start: float, timeout: float | None, broken: Sequence[Exception], send: Send
    ) -> bool:
        """Wait for the process; end it on cancel, timeout or a broken ``on_line``. Return whether it timed out."""
        # sh checks a background process once a second; a thread in waitpid sees its end at once.
        waiter = threading.Thread(target=process.wait, name=f"wait for {process.pid}", daemon=True)
        waiter.start()
        terminated_at = 0.0
        timed_out = False
        groups: set[int] = set()
        while waiter.is_alive():
            waiter.join(0.1)
            if not waiter.is_alive():
                break
            now = time.monotonic()
            late = timeout is not None and now - start > timeout
            if not terminated_at and (late or broken or self.cancel.is_set()):
                timed_out = late and not self.cancel.is_set()
                terminated_at = now
                groups |= groups_of(process.pid)
                send(groups, signal.SIGTERM)
            elif terminated_at and now - terminated_at > self.grace:
                groups |= groups_of(process.pid)
                send(groups, signal.SIGKILL)
        pause = threading.Event()
        while terminated_at and has_living(groups):  # children outlive their parent
            if time.monotonic() - terminated_at > self.grace:
                send(groups, signal.SIGKILL)
                break
            pause.wait(0.1)
        return timed_out

    def _write_log(self, result: Result) -> None:
        if self.log is None or not self.log.parent.is_dir():
            return
        text = f"$ {shlex.join(result.argv)}\n{result.out}{result.err}[{result.code}] {result.seconds:.2f}s\n"
        # A full disk must not fail a command that succeeded.
        with contextlib.suppress(OSError), self._log_lock, append_private(self.log) as file:
            file.write(redact_text(text))


def _shown(argv: Sequence[str]) -> str:
    return redact_text(shlex.join(argv))


def replace_process(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Execute another program in place of this one, with ``env`` added to the environment.

    The program, such as a user's shell or editor, then owns the terminal, the signals and the exit code. Raises
    CommandFailed when it is not installed or cannot be executed.
    """
    program = shutil.which(argv[0])
    if program is None:
        raise CommandFailed(argv, 127, why=f"{argv[0]} is not installed (not in PATH)")
    try:
        os.execve(program, list(argv), {**os.environ, **env})  # noqa: S606 - no shell on purpose
    except OSError as error:
        raise CommandFailed(argv, 126, why=f"{argv[0]} cannot be started: {error.strerror}") from error


def _signal(groups: Collection[int], number: int) -> None:
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, number)


def _signal_as_root(groups: Collection[int], number: int) -> None:
    """Signal process groups of sudo and its command, which belong to root.

    A signal of the user may reach sudo itself, which relays SIGTERM to its command only, and leaves the command behind
    when it is killed (measured with sudo 1.9.13).
    """
    import sh  # noqa: TID251 - this is the door

    words = ("-n", "kill", "-s", str(int(number)), "--", *(f"-{group}" for group in sorted(groups)))
    try:
        with _STARTS:
            sent = sh.Command("sudo")(
                *words, _ok_code=list(range(-64, 256)), _return_cmd=True, _new_group=True, _timeout=10
            )
    except (sh.CommandNotFound, sh.ForkException, sh.TimeoutException):
        sent = None
    if sent is None or sent.exit_code != 0:
        _signal(groups, number)


def _libc() -> Any:
    import ctypes

    try:
        return ctypes.CDLL(None)
    except OSError:
        return None


_LIBC = _libc()


def _die_with_parent() -> None:
    """In the child: ask the kernel for SIGTERM when this process is killed."""
    if _LIBC is not None:
        # PR_SET_PDEATHSIG (linux/prctl.h) concerns the thread that started the child; that thread waits for its end.
        _LIBC.prctl(1, signal.SIGTERM)
