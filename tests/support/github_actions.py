"""Runs the steps of a composite action, or of a job, as GitHub does: expressions, conditions, environment, outputs.

Scripts run as they stand, in bash with GitHub's options. Actions that a step ``uses`` are calls of Python functions.
"""

from __future__ import annotations

import json
import os
import re
import subprocess  # noqa: TID251 - bash runs the scripts
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
Use = Callable[["Job", Json], Mapping[str, str] | None]
"""An action: called with the job and its evaluated inputs; returns its outputs."""

_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|(==|!=|&&|\|\||!|\(|\)|,)|([\w.-]+))")


@dataclass
class Job:
    """A job on a runner. ``uses`` has the actions that steps may use, ``context`` values such as ``github.ref``."""

    workspace: Path
    temp: Path
    uses: Mapping[str, Use] = field(default_factory=dict)
    context: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    log: str = ""
    failed: bool = False

    def __post_init__(self) -> None:
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.temp.mkdir(parents=True, exist_ok=True)
        for name in ("OUTPUT", "ENV", "PATH", "STEP_SUMMARY"):
            self._file(name).touch()
        self.env |= {"RUNNER_TEMP": str(self.temp), "GITHUB_WORKSPACE": str(self.workspace), "GITHUB_ACTIONS": "true"}
        self.env |= {f"GITHUB_{name}": str(self._file(name)) for name in ("OUTPUT", "ENV", "PATH", "STEP_SUMMARY")}

    def _file(self, name: str) -> Path:
        return self.temp / f"github-{name.lower()}"

    @property
    def summary(self) -> str:
        """What the steps wrote on the run's page."""
        return self._file("STEP_SUMMARY").read_text()

    def action(self, folder: Path, **given: str) -> dict[str, str]:
        """Run a composite action with inputs; returns its outputs. Its failure fails the job."""
        (file,) = folder.glob("action.y*ml")
        doc: Json = yaml.safe_load(file.read_text())
        assert doc["runs"]["using"] == "composite"
        assert set(given) <= set(doc.get("inputs", {})), "an input that the action does not have"
        inputs = {name: given.get(name, one.get("default", "")) for name, one in doc.get("inputs", {}).items()}
        self.env["GITHUB_ACTION_PATH"] = str(folder)
        outer, self.outputs = self.outputs, {}
        self.steps(doc["runs"]["steps"], {f"inputs.{name}": value for name, value in inputs.items()})
        context = {f"inputs.{name}": value for name, value in inputs.items()}
        made = {name: self.text(one["value"], context) for name, one in doc.get("outputs", {}).items()}
        self.outputs = outer
        return made

    def steps(self, steps: list[Json], context: Mapping[str, str] | None = None) -> None:
        """Run steps in order; after a failure only those whose condition says so."""
        known = {**self.context, **(context or {})}
        for step in steps:
            condition = str(step.get("if", "success()")).removeprefix("${{").removesuffix("}}")
            always = any(word in condition for word in ("always()", "failure()", "cancelled()"))
            if not (always or not self.failed) or not self.truth(condition, known):
                continue
            name = str(step.get("name") or step.get("uses"))
            self.ran.append(name)
            made = self._run(step, known) if "run" in step else self._use(step, known)
            if "id" in step:
                self.outputs[step["id"]] = dict(made or {})

    def _use(self, step: Json, known: Mapping[str, str]) -> Mapping[str, str] | None:
        given = {key: self.text(str(value), known) for key, value in step.get("with", {}).items()}
        return self.uses[step["uses"]](self, given)

    def _run(self, step: Json, known: Mapping[str, str]) -> dict[str, str]:
        assert step.get("shell", "bash") == "bash"
        assert "${{" not in step["run"], "bash would run what an expression inserts"
        own = {key: self.text(str(value), known) for key, value in step.get("env", {}).items()}
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        for name in ("OUTPUT", "ENV", "PATH"):
            self._file(name).write_text("")
        where = self.workspace / self.text(str(step.get("working-directory", ".")), known)
        done = subprocess.run(
            argv,
            cwd=where,
            env={**self.env, **own},
            text=True,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        self.log += f"{done.stdout}{done.stderr}"
        self.failed = self.failed or done.returncode != 0
        self.env |= _pairs(self._file("ENV"))
        added = self._file("PATH").read_text().split()
        self.env["PATH"] = ":".join([*reversed(added), self.env["PATH"]])
        return _pairs(self._file("OUTPUT"))

    def text(self, template: str, known: Mapping[str, str]) -> str:
        """A text with its expressions evaluated."""
        return re.sub(r"\$\{\{(.*?)\}\}", lambda found: str(self.value(found[1], known)), template)

    def truth(self, expression: str, known: Mapping[str, str]) -> bool:
        """Whether GitHub takes the expression's value as true."""
        return self.value(expression, known) not in (False, "", "false", 0)

    def value(self, expression: str, known: Mapping[str, str]) -> str | bool:
        """The value of an expression of names, texts, comparisons, and, or, not and status functions."""
        words = [next(part for part in found.groups() if part) for found in _TOKEN.finditer(expression)]
        value, rest = self._or(words, known)
        assert not rest, f"cannot evaluate {expression!r}"
        return value

    def _or(self, words: list[str], known: Mapping[str, str]) -> tuple[str | bool, list[str]]:
        value, rest = self._and(words, known)
        while rest[:1] == ["||"]:
            other, rest = self._and(rest[1:], known)
            value = value or other
        return value, rest

    def _and(self, words: list[str], known: Mapping[str, str]) -> tuple[str | bool, list[str]]:
        value, rest = self._equal(words, known)
        while rest[:1] == ["&&"]:
            other, rest = self._equal(rest[1:], known)
            value = value and other
        return value, rest

    def _equal(self, words: list[str], known: Mapping[str, str]) -> tuple[str | bool, list[str]]:
        value, rest = self._one(words, known)
        if rest[:1] in (["=="], ["!="]):
            other, after = self._one(rest[1:], known)
            return (value == other) is (rest[0] == "=="), after
        return value, rest

    def _one(self, words: list[str], known: Mapping[str, str]) -> tuple[str | bool, list[str]]:
        first, rest = words[0], words[1:]
        if first == "!":
            value, rest = self._one(rest, known)
            return value in (False, "", "false"), rest
        if first == "(":
            value, rest = self._or(rest, known)
            assert rest[0] == ")"
            return value, rest[1:]
        if first.startswith("'"):
            return first[1:-1].replace("''", "'"), rest
        if rest[:2] == ["(", ")"]:
            return {"always": True, "success": not self.failed, "failure": self.failed, "cancelled": False}[
                first
            ], rest[2:]
        if found := re.fullmatch(r"steps\.([\w-]+)\.outputs\.([\w-]+)", first):
            return self.outputs.get(found[1], {}).get(found[2], ""), rest
        if first.startswith("env."):
            return self.env.get(first.removeprefix("env."), ""), rest
        return known[first] if first in known else json.loads(first), rest


def _pairs(file: Path) -> dict[str, str]:
    """The lines KEY=VALUE of one of GitHub's files."""
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)
