"""The front door: nox -s lab-up, e2e, lab-down for labs; plain nox checks the code and never touches a cluster."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"  # sessions share two environments, made by environment() below

# nox gives an interrupted program 0.3 s and then kills it; a lab needs time to stop where it can go on.
PATIENT = {"interrupt_timeout": 120.0, "terminate_timeout": 60.0}


def environment(session: nox.Session, extra: str = "test") -> Path:
    """The programs of an environment that holds kailab with an extra; made once, and shared by all sessions.

    nox itself makes one for each session, which costs 20 s a session. This one is made anew when pyproject.toml, Python
    or the checkout's place has changed, or when it was not finished.
    """
    home = Path(".nox", f"kailab-{extra}").resolve()
    wanted = hashlib.sha256(Path("pyproject.toml").read_bytes() + f"{sys.executable} {sys.version} {home}".encode())
    stamp = home / "made-for"
    if not stamp.exists() or stamp.read_text() != wanted.hexdigest():
        session.run(sys.executable, "-m", "venv", "--clear", str(home))
        session.run(str(home / "bin" / "python"), "-m", "pip", "install", "-q", "-e", f".[{extra}]")
        stamp.write_text(wanted.hexdigest())
    return home / "bin"


@nox.session(name="lab-up", default=False)
def lab_up(session: nox.Session) -> None:
    """Bring the lab up (arguments go to 'lab up')."""
    programs = environment(session)
    session.run(str(programs / "lab"), "up", *session.posargs, **PATIENT)


@nox.session(name="lab-down", default=False)
def lab_down(session: nox.Session) -> None:
    """Take the lab away (arguments go to 'lab down')."""
    programs = environment(session)
    session.run(str(programs / "lab"), "down", *session.posargs, **PATIENT)


@nox.session(default=False)
def e2e(session: nox.Session) -> None:
    """Run the suites against the lab that is up (arguments go to pytest)."""
    programs = environment(session)
    artifacts = os.environ.get("KAILAB_ARTIFACTS", "artifacts/e2e")
    args = [f"--lab{arg[1:]}" if arg.split("=")[0] == "--require" else arg for arg in session.posargs]
    session.run(
        str(programs / "python"),
        "-m",
        "pytest",
        "tests/e2e",
        "--timeout",
        "300",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "--no-loadscope-reorder",  # the order of lab/pytest_plugin/scheduling.py
        f"--junitxml={artifacts}/junit.xml",
        f"--lab-report={artifacts}/report.html",
        f"--lab-artifacts={artifacts}",
        *args,
        **PATIENT,
    )


@nox.session(default=False)
def faults(session: nox.Session) -> None:
    """Inject faults into a lab and check that the suites notice (arguments go to scripts/fault_injection/run.py)."""
    programs = environment(session)
    session.run(str(programs / "python"), "-m", "scripts.fault_injection.run", *session.posargs, **PATIENT)


@nox.session(default=False)
def teeth(session: nox.Session) -> None:
    """Old name of the session 'faults'."""
    session.warn("the session 'teeth' is now called 'faults'")
    session.notify("faults", session.posargs)


@nox.session
def unit(session: nox.Session) -> None:
    """Unit tests: seconds, no cluster (arguments go to pytest)."""
    programs = environment(session)
    session.run(str(programs / "python"), "-m", "pytest", "tests/unit", "-q", *session.posargs)


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Unit tests with branch coverage, by file."""
    programs = environment(session, "dev")
    session.run(str(programs / "coverage"), "run", "-m", "pytest", "tests/unit", "-q", *session.posargs)
    session.run(str(programs / "coverage"), "report")


@nox.session(default=False)
def tests(session: nox.Session) -> None:
    """Unit tests, then the integration tests this machine has everything for (arguments go to pytest)."""
    programs = environment(session)
    session.run(str(programs / "python"), "-m", "pytest", "tests/unit", "-q", "-n", "2")
    session.run(
        str(programs / "python"),
        "-m",
        "pytest",
        "tests/integration",
        "-ra",
        "--timeout",
        "1800",
        "-n",
        "3",
        "--dist",
        "loadgroup",
        "--no-loadscope-reorder",
        *session.posargs,
        **PATIENT,
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting, and imports between packages."""
    programs = environment(session, "dev")
    session.run(str(programs / "ruff"), "check", ".")
    session.run(str(programs / "ruff"), "format", "--check", ".")
    session.run(str(programs / "lint-imports"), "--no-cache")


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strict."""
    programs = environment(session, "dev")
    session.run(str(programs / "mypy"))


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Time a warm 'lab up' against a plain script of the same commands (arguments go to scripts/bench/bench.py)."""
    programs = environment(session)
    session.run(str(programs / "python"), "-m", "scripts.bench.bench", *session.posargs, **PATIENT)
