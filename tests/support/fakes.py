"""Strict fakes for unit tests: they refuse everything that a test did not declare, and record the rest.

Use them through the fixtures ``runner`` and ``clock`` of conftest.py, which also fail a test that declared a
command which did not run.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.engine.step import Effect, Observed
from lab.errors import CommandFailed
from lab.tools.process import OnLine, Result

Pattern = str | Sequence[object]
"""A command line as one string, or its words; ``...`` (Ellipsis) matches any single word."""


@dataclass(frozen=True)
class Call:
    """One command that the code under test ran, with all arguments."""

    argv: tuple[str, ...]
    stdin: str | bytes | None = None
    env: Mapping[str, str] | None = None
    cwd: Path | None = None
    timeout: float | None = None
    check: bool = True

    @property
    def line(self) -> str:
        """The command as a shell command line."""
        return shlex.join(self.argv)


Answer = str | Callable[[Call], str]


@dataclass
class Handler:
    """The answer to a command; ``left`` is the number of further calls it answers (None: unlimited)."""

    words: tuple[object, ...]
    out: Answer
    err: str
    code: int
    left: int | None
    raises: Exception | None
    exact: bool
    calls: list[Call] = field(default_factory=list)

    def matches(self, argv: tuple[str, ...]) -> bool:
        """Whether ``argv`` starts with (exact: equals) the declared words."""
        if self.left == 0 or len(argv) < len(self.words) or (self.exact and len(argv) != len(self.words)):
            return False
        return all(want is ... or want == word for want, word in zip(self.words, argv, strict=False))

    def __str__(self) -> str:
        return " ".join("…" if word is ... else shlex.quote(str(word)) for word in self.words)


class FakeRunner:
    """A Runner that knows only declared commands; an undeclared one is an AssertionError that names it.

    The declared command with the most words wins, among equals the first with ``times`` left, so a sequence is
    declared in order. Thread-safe.
    """

    def __init__(self, which: Mapping[str, str] | None = None) -> None:
        self.calls: list[Call] = []
        self.handlers: list[Handler] = []
        self.programs: dict[str, str] = dict(which or {})
        self.unexpected: list[str] = []
        self.cancelled = False
        self._lock = threading.Lock()

    def handle(
        self,
        argv_or_prefix: Pattern,
        out: Answer = "",
        err: str = "",
        code: int = 0,
        times: int | None = None,
        *,
        raises: Exception | None = None,
        exact: bool = False,
    ) -> Handler:
        """Declare a command.

        Args:
            argv_or_prefix: how the command line starts; ``exact`` makes it the whole line.
            out: its stdout, or a function of the Call that makes it.
            err: its stderr.
            code: its exit status.
            times: answers exactly so often; None: once or more.
            raises: raised instead of answering.
            exact: no further words are allowed.

        Returns:
            The handler; its ``calls`` are the commands it answered.
        """
        words = shlex.split(argv_or_prefix) if isinstance(argv_or_prefix, str) else [_word(w) for w in argv_or_prefix]
        handler = Handler(tuple(words), out, err, code, times, raises, exact)
        self.handlers.append(handler)
        return handler

    def containers(self, inspect: Callable[[str], Mapping[str, Any]]) -> None:
        """Declare ``docker inspect`` of one container or several, with what the engine reports about each."""
        self.handle(
            "docker inspect --type container", out=lambda call: json.dumps([inspect(name) for name in call.argv[4:]])
        )

    def has(self, name: str, path: str = "") -> None:
        """Add a program to PATH; ``which`` finds no other."""
        self.programs[name] = path or f"/usr/bin/{name}"

    def which(self, name: str) -> Path | None:
        """See Runner.which."""
        return Path(self.programs[name]) if name in self.programs else None

    def stopped(self) -> bool:
        """See Runner.stopped: set by the test."""
        return self.cancelled

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
        call = Call(tuple(str(word) for word in argv), stdin, env, cwd, timeout, check)
        with self._lock:
            self.calls.append(call)
            handler = self._handler(call)
            handler.calls.append(call)
            if handler.left is not None:
                handler.left -= 1
        if handler.raises is not None:
            raise handler.raises
        out = handler.out(call) if callable(handler.out) else handler.out
        if on_line is not None:
            for line in (out + handler.err).splitlines():
                on_line(line)
        if check and handler.code != 0:
            raise CommandFailed(call.argv, handler.code, out, handler.err)
        return Result(call.argv, handler.code, out, handler.err)

    def _handler(self, call: Call) -> Handler:
        fitting = [handler for handler in self.handlers if handler.matches(call.argv)]
        if not fitting:
            self.unexpected.append(call.line)
            known = "".join(f"\n  {handler}" for handler in self.handlers) or " nothing"
            raise AssertionError(f"command was not declared: {call.line}\ndeclared:{known}")
        return max(fitting, key=lambda handler: len(handler.words))

    @property
    def lines(self) -> list[str]:
        """Return every command that was run, as a shell command line."""
        return [call.line for call in self.calls]

    def unmet(self) -> list[str]:
        """Return errors at the end of a test: declared commands that did not run, undeclared ones that did."""
        never = [f"declared but never run: {h}" for h in self.handlers if not h.calls and h.left != 0]
        few = [f"declared {h.left} times more than run: {h}" for h in self.handlers if h.calls and h.left]
        return never + few + [f"run but not declared: {line}" for line in self.unexpected]


class FakeClock:
    """A monotonic clock that only ``advance`` and ``sleep`` move; pass it as ``clock`` or ``sleep``."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """The time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        with self._lock:
            self.now += seconds

    def sleep(self, seconds: float) -> None:
        """Replace time.sleep: return at once and record the seconds in ``slept``."""
        self.slept.append(seconds)
        self.advance(seconds)


@dataclass
class FakeStep:
    """A step that keeps its state in ``done`` and logs every verb.

    ``act`` maps a verb to its effect: a function of the context, or an exception to raise.
    """

    id: str
    needs: tuple[str, ...] = ()
    done: bool = False
    seen: Observed | None = None
    act: dict[str, Callable[[object], None] | BaseException] = field(default_factory=dict)
    verbs: list[str] = field(default_factory=list)
    journal: list[str] = field(default_factory=list)
    part_of: str = ""
    want: object = None
    left: tuple[str, ...] = ()

    def wanted(self) -> object:
        """``want``."""
        return self.want

    def remains(self, ctx: object) -> tuple[str, ...]:
        """``left``."""
        self._do("remains", ctx)
        return self.left

    @property
    def title(self) -> str:
        """A few words for the board."""
        return self.id.capitalize()

    def effects(self) -> tuple[Effect, ...]:
        """Nothing."""
        return ()

    def observe(self, ctx: object) -> Observed:
        """``seen`` when set, else by ``done``."""
        self._do("observe", ctx)
        return self.seen or (Observed.ready("there") if self.done else Observed.absent("nothing"))

    def apply(self, ctx: object) -> None:
        """Become ready."""
        self._do("apply", ctx)
        self.done, self.seen = True, None

    def verify(self, ctx: object) -> None:
        """Succeed, unless ``act`` has a reaction."""
        self._do("verify", ctx)

    def undo(self, ctx: object) -> None:
        """Become absent."""
        self._do("undo", ctx)
        self.done = False

    def _do(self, verb: str, ctx: object) -> None:
        self.verbs.append(verb)
        self.journal.append(f"{verb} {self.id}")
        happening = self.act.get(verb)
        if isinstance(happening, BaseException):
            raise happening
        if happening is not None:
            happening(ctx)


def _word(word: object) -> object:
    return word if word is ... else str(word)
