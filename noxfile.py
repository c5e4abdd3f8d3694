"""Sessions: lab-up, e2e and lab-down for labs; plain nox checks the code and never touches a cluster."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"  # sessions share two environments, made by environment() below

# nox kills an interrupted program after 0.3 s; a lab needs time to stop at a point where it can resume
PATIENT = {"interrupt_timeout": 120.0, "terminate_timeout": 60.0}


def environment(session: nox.Session, extra: str = "test") -> Path:
    """Programs of the environment with kailab and an extra, shared by all sessions.

    An environment of nox's own would cost 20 s for each session. This one is recreated when pyproject.toml, Python or
    the path of the checkout changes, or when it is incomplete.
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
    """Remove the lab (arguments go to 'lab down')."""
    programs = environment(session)
    session.run(str(programs / "lab"), "down", *session.posargs, **PATIENT)


@nox.session(default=False)
def e2e(session: nox.Session) -> None:
    """Run the suites against the running lab (arguments go to pytest)."""
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
        "--no-loadscope-reorder",  # lab/pytest_plugin/scheduling.py sets the order
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


@nox.session(default=False)
def pins(session: nox.Session) -> None:
    """Show the catalogue's checksums and digests, and add missing ones (arguments go to scripts/pins.py)."""
    programs = environment(session)
    session.run(str(programs / "python"), "-m", "scripts.pins", *session.posargs)


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
    """Unit tests, then integration tests; those that the machine cannot run are skipped (arguments go to pytest)."""
    programs = environment(session)
    artifacts = os.environ.get("KAILAB_ARTIFACTS", "artifacts/tests")
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
        f"--junitxml={artifacts}/integration.xml",
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
