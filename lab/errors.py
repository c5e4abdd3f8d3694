"""kailab's errors, each with an exit code. Only ``lab.__main__`` prints them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


class LabError(Exception):
    """An error for the user, printed without a traceback.

    ``what`` is one sentence that starts with the object; ``command`` is the failed command, ready to paste into a
    shell; ``evidence`` has lines such as a log tail or a diff; ``fix`` is one next action.
    """

    what: str
    command: str
    evidence: tuple[str, ...]
    fix: str
    exit_code: int = 1
    title = "error"

    def __init_subclass__(cls, code: int = 0, title: str = "") -> None:
        cls.exit_code, cls.title = code or cls.exit_code, title or cls.title

    def __init__(self, what: str, *, command: str = "", evidence: Sequence[str] = (), fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.command = command
        self.evidence = tuple(evidence)
        self.fix = fix

    def __str__(self) -> str:
        lines = [self.what]
        if self.command:
            lines.append(f"  command: {self.command}")
        lines += [f"  | {line}" for line in self.evidence]
        if self.fix:
            lines.append(f"  next: {self.fix}")
        return "\n".join(lines)

    JSON = "error what command evidence next=fix exit_code"

    @property
    def error(self) -> str:
        """Name of its class."""
        return type(self).__name__


class SpecError(LabError, code=2, title="lab file"):
    """The lab file, a ``--set`` value or a command-line argument is wrong."""


class Unavailable(LabError, code=3, title="supply"):
    """A binary, image or chart that the lab needs is not available from any source."""


class HostNotReady(LabError, code=4, title="host"):
    """The machine lacks something and the fix was not approved."""


class StepFailed(LabError, code=5, title="step"):
    """A step of the plan failed; the lab can be resumed with ``kailab up``."""


class WaitTimeout(LabError, code=6, title="timeout"):
    """A condition was not met in time; the evidence is the last state seen."""


class Leftovers(LabError, code=7, title="leftovers"):
    """After ``kailab down`` something of the lab still exists."""


class Busy(LabError, code=8, title="busy"):
    """Another kailab process holds this lab's lock."""


class NoLab(LabError, code=9, title="no lab"):
    """No lab of that name exists."""


class CommandFailed(LabError, code=10, title="command"):
    """An external command ended with a non-zero status or could not be started."""

    def __init__(
        self, argv: Sequence[str], code: int, out: str = "", err: str = "", fix: str = "", why: str = ""
    ) -> None:
        self.argv = tuple(argv)
        self.code = code
        self.out = out
        self.err = err
        tail = (err.strip() or out.strip()).splitlines()[-12:]
        super().__init__(
            why or f"{argv[0] if argv else 'command'} ended with status {code}",
            command=shlex.join(argv),
            evidence=tail,
            fix=fix,
        )


class ApiFailed(LabError, code=11, title="kubernetes"):
    """A Kubernetes API server refused a request or could not be reached."""

    def __init__(self, what: str, *, status: int = 0, evidence: Sequence[str] = (), fix: str = "") -> None:
        super().__init__(what, evidence=evidence, fix=fix)
        self.status = status


class ManifestsRefused(LabError, code=12, title="lint"):
    """Lint found an error in a manifest; nothing of it was applied."""


class InvariantBroken(LabError, code=13, title="invariant"):
    """An invariant of GPU sharing, queues or tenants does not hold on the cluster."""


class NameTaken(LabError, code=14, title="name taken"):
    """A lab of another user or state directory has that name."""


class NotProven(LabError, code=15, title="not proven"):
    """Nothing failed, but too little was tested to prove the result."""


class NotPermitted(LabError, code=16, title="not permitted"):
    """The user lacks permissions in an existing cluster, or has not confirmed to use one that looks like production."""


class DoesNotRun(LabError, code=17, title="does not run"):
    """KAI would not run a workload of the manifests on this cluster as it is now."""


class Interrupted(LabError, code=130, title="interrupted"):
    """Ctrl-C or SIGTERM: stopped cleanly, resumable."""


EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "unexpected error (with --debug: a traceback)",
    **{
        cls.exit_code: (cls.__doc__ or "").splitlines()[0].rstrip(".").replace("``", "")
        for cls in LabError.__subclasses__()
        if cls.__module__ == __name__
    },
}
