"""Sessions: lab-up, e2e and lab-down for labs; plain nox checks the code and never touches a cluster."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"  # sessions share two environments, made by environment() below

# a command starts 0.4 s later where Python may not keep what it compiled
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

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


def fresh(session: nox.Session, home: Path, *packages: str, python: str = sys.executable) -> Path:
    """Programs of a new environment with these packages."""
    session.run(python, "-m", "venv", "--clear", str(home), external=True)
    programs = home.resolve() / "bin"
    session.run(str(programs / "python"), "-m", "pip", "install", "-q", *packages)
    return programs


@nox.session(name="lab-up", default=False)
def lab_up(session: nox.Session) -> None:
    """Bring the lab up (arguments go to 'kailab up')."""
    programs = environment(session)
    session.run(str(programs / "kailab"), "up", *session.posargs, **PATIENT)


@nox.session(name="lab-down", default=False)
def lab_down(session: nox.Session) -> None:
    """Remove the lab (arguments go to 'kailab down')."""
    programs = environment(session)
    session.run(str(programs / "kailab"), "down", *session.posargs, **PATIENT)


@nox.session(default=False)
def e2e(session: nox.Session) -> None:
    """Run the suites against the running lab (arguments go to 'kailab e2e')."""
    programs = environment(session)
    session.run(str(programs / "kailab"), "e2e", *session.posargs, **PATIENT)


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


def pythons(session: nox.Session) -> dict[str, str]:
    """Programs of the supported Pythons that are installed here, by version, the oldest first."""
    found: dict[str, str] = {}
    for version in ("3.11", "3.12", "3.13", "3.14"):
        python = shutil.which(f"python{version}")
        # pyenv's shims of versions that are not active only say so
        look = {"external": True, "silent": True, "success_codes": range(256)}
        if python is None or "runs" not in str(session.run(python, "-c", "print('runs')", **look)):
            session.warn(f"Python {version} is not installed: nothing is tested with it")
        else:
            found[version] = python
    return found or session.error("none of Python 3.11 to 3.14 is installed by that name")


@nox.session(default=False)
def newest(session: nox.Session) -> None:
    """Unit tests with the newest supported Python that is installed (arguments go to pytest)."""
    python = list(pythons(session).values())[-1]
    programs = fresh(session, Path(".nox", "kailab-newest"), "-e", ".[test]", python=python)
    session.run(str(programs / "python"), "-m", "pytest", "tests/unit", "-q", "-n", "2", *session.posargs)


@nox.session(default=False)
def lowest(session: nox.Session) -> None:
    """Unit tests with the oldest dependencies that pyproject.toml allows (arguments go to pytest)."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    bounds = [re.fullmatch(r"([\w-]+).*?>=([\d.]+).*", one) for one in wanted]
    constraints = Path(".nox", "lowest.txt")
    constraints.parent.mkdir(exist_ok=True)
    constraints.write_text("".join(f"{one[1]}=={one[2]}.*\n" for one in bounds if one))
    programs = fresh(session, Path(".nox", "kailab-lowest"), "-e", ".[test]", "-c", str(constraints))
    # the recorded help pages are those of the newest typer
    tests = ["tests/unit", "--ignore=tests/unit/cli/test_golden.py", "-q", "-n", "2"]
    session.run(str(programs / "python"), "-m", "pytest", *tests, *session.posargs)


@nox.session(default=False)
def package(session: nox.Session) -> None:
    """Build sdist and wheel, check them, and use the wheel in an empty folder with each Python that is installed.

    With --lab the first of these also brings up a lab, runs suites and removes it, with an empty home.
    """
    dist = Path(".nox", "dist").resolve()
    shutil.rmtree(dist, ignore_errors=True)
    tools = fresh(session, Path(".nox", "kailab-package"), "build", "twine")
    session.run(str(tools / "python"), "-m", "build", "--outdir", str(dist), ".")
    session.run(str(tools / "twine"), "check", "--strict", *map(str, dist.iterdir()))
    (wheel,) = dist.glob("*.whl")
    tested: list[Path] = []
    for version, python in pythons(session).items():
        home = Path(".nox", f"kailab-wheel-{version}")
        programs = fresh(session, home, f"kailab-cli[test] @ {wheel.as_uri()}", python=python)
        with tempfile.TemporaryDirectory() as empty, session.chdir(empty):  # outside: pytest would find this project
            session.run(str(programs / "kailab"), "--version")
            session.run(str(programs / "kailab"), "schema", silent=True)
            session.run(str(programs / "python"), "-m", "pytest", "--pyargs", "lab.suites", "--collect-only", "-q")
        tested.append(programs)
    if "--lab" in session.posargs:
        main_job(session, tested[0])


def main_job(session: nox.Session, programs: Path) -> None:
    """A lab from an installed wheel to passed tests. Of this machine it has the cache; its home is empty."""
    find = "from lab.paths import cache_root; print(cache_root())"
    cache = str(session.run(str(programs / "python"), "-c", find, silent=True)).strip()
    kailab = str(programs / "kailab")
    with tempfile.TemporaryDirectory() as home, session.chdir(home):
        # artifacts of its own: those of the checkout's suites must stay
        env = {"HOME": home, "KAILAB_CACHE": cache, "KAILAB_ARTIFACTS": f"{home}/artifacts"}
        try:
            session.run(
                kailab, "up", "--profile", "minimal", "--name", "wheel", "--yes", "--ui", "plain", env=env, **PATIENT
            )
            session.run(kailab, "e2e", "-k", "kai_pods or lab_is_real", env=env, **PATIENT)
        finally:
            session.run(kailab, "down", "--name", "wheel", env=env, **PATIENT)


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
    """Measure kailab: up against a plain script, status, tenants, e2e (arguments go to scripts/bench)."""
    programs = environment(session)
    session.run(str(programs / "python"), "-m", "scripts.bench", *session.posargs, **PATIENT)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation site into site/, check its links, and look at it in Chromium if that is installed."""
    programs = environment(session, "docs")
    python = str(programs / "python")
    session.run(python, "-m", "mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})
    session.run(python, "-m", "scripts.docs.check_site")
    session.run(python, "-m", "pytest", "tests/integration/test_site_browser.py", "-q", "-rs", *session.posargs)
