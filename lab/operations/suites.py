"""The suites of this installation as a command: those of the checkout, or those that travel in the wheel."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from lab.errors import HostNotReady
from lab.paths import suites

_PYTEST = {"pytest": "pytest"}
_PLUGINS = {"pytest_timeout": "pytest-timeout", "xdist": "pytest-xdist"}
_EXTRA = "'kailab-cli[test]'"
_QUIET = "ignore:This process:DeprecationWarning:sh"
"""sh forks while kubernetes' threads run, of which Python 3.12 and newer warn; the child only executes a program."""

_TIMEOUT = ("--timeout", "300", "-o", "timeout_func_only=true")
"""Of each test in seconds, without its fixtures: one may wait for GPUs as long as another test has them."""

_PARALLEL = ("-n", "2", "--dist", "loadgroup")


def pytest_command() -> list[str | Path]:
    """Run pytest on the suites: a command to which options can be added. Raises HostNotReady: something is missing."""
    _require(_PYTEST)
    folder = suites()
    if folder is None:
        raise HostNotReady("this installation of kailab has no suites", fix=_install())
    command: list[str | Path] = [sys.executable, "-m", "pytest", folder, "-W", _QUIET]
    if folder.name == "suites":  # in a wheel: pytest would use the settings of a project that the environment is in
        command += ["-c", os.devnull, f"--rootdir={folder}", "-p", "no:cacheprovider"]
    return command


def e2e_command(artifacts: Path, options: list[str]) -> list[str | Path]:
    """Run all suites in two processes, with JUnit and an HTML report in ``artifacts``; ``options`` go to pytest.

    ``--require LIST`` and ``--name NAME`` are short for ``--lab-require`` and ``--lab``. Raises HostNotReady.
    """
    _require(_PYTEST | _PLUGINS)
    short = {"--require": "--lab-require", "--name": "--lab"}
    words = [word.partition("=") for word in options]
    return [
        *pytest_command(),
        *_TIMEOUT,
        *_PARALLEL,
        "--no-loadscope-reorder",  # lab/pytest_plugin/scheduling.py sets the order
        f"--junitxml={artifacts / 'junit.xml'}",
        f"--lab-report={artifacts / 'report.html'}",
        f"--lab-artifacts={artifacts}",
        *(f"{short.get(option, option)}{equals}{value}" for option, equals, value in words),
    ]


def _require(modules: dict[str, str]) -> None:
    if missing := [name for module, name in modules.items() if importlib.util.find_spec(module) is None]:
        raise HostNotReady(f"the suites need {', '.join(missing)}, which kailab's environment lacks", fix=_install())


def _install() -> str:
    """The command that installs the extra, by the tool that installed kailab."""
    place = Path(sys.prefix).parts
    if "pipx" in place:
        return f"pipx install --force {_EXTRA}"
    if "uv" in place:
        return f"uvx --from {_EXTRA} kailab e2e, or uv tool install {_EXTRA}"
    return f"pip install {_EXTRA}"
