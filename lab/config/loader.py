"""Load a LabSpec from a lab file, the environment and the command line.

Precedence: lab file < environment < command line (see ``lab.config.overrides``). All errors are reported at once, each
with its file and line, or its override.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lab.config.document import LabFileDocument, read_document
from lab.config.error_text import explain
from lab.config.models import LabSpec
from lab.config.overrides import BadOverrideError, Override, from_command_line, from_environment
from lab.config.rules import RULE, Loc, dotted, prefix
from lab.errors import SpecError
from lab.text import perhaps

DEFAULT_FILE = "lab.yaml"
DEFAULT_PROFILE = "demo"
_PROFILES = Path(__file__).parent / "profiles"
_PATHS: tuple[tuple[str, str], ...] = (("cluster", "kubeconfig"), ("supply", "bundle"))
_FIX = "correct the values named above; 'kailab init' writes a lab file with every key explained"


def load_spec(file: Path, overrides: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> LabSpec:
    """The lab of a lab file.

    ``overrides`` such as ``gpu.perNode=4`` take precedence over ``environ`` (default: this process's environment) with
    entries such as ``KAILAB_SET_gpu__perNode=4``. Raises SpecError with all errors.
    """
    return _load(file, read_document(file), overrides, environ)


def load_profile(name: str, overrides: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> LabSpec:
    """The lab of a shipped profile; see ``load_spec``."""
    return load_spec(profile_file(name), overrides, environ)


def resolve_spec(
    file: Path | None, profile: str | None, overrides: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> LabSpec:
    """The lab of the given file or profile, else of ./lab.yaml, else of the profile demo.

    Raises SpecError if both are given, or the lab file is invalid.
    """
    if file is not None and profile is not None:
        what = f"lab file {file} and profile {profile} are mutually exclusive"
        raise SpecError(what, fix="use either -f or --profile")
    if profile is None:
        if file is not None:
            return load_spec(file, overrides, environ)
        if os.path.lexists(DEFAULT_FILE):  # a broken link is an error, not a missing file
            return load_spec(Path(DEFAULT_FILE), overrides, environ)
    return load_profile(profile or DEFAULT_PROFILE, overrides, environ)


def profile_names() -> tuple[str, ...]:
    """Names of the shipped profiles, the default first."""
    names = sorted(path.stem for path in _PROFILES.glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_PROFILE))


def profile_file(name: str) -> Path:
    """The file of a shipped profile. Raises SpecError for an unknown name."""
    known = profile_names()
    if name not in known:
        raise SpecError(f"unknown profile '{name}'{perhaps(name, known)}", fix=f"use one of: {', '.join(known)}")
    return _PROFILES / f"{name}.yaml"


def profile_summary(name: str) -> str:
    """What a shipped profile is for: the sentence of its first line. Raises SpecError for an unknown name."""
    return profile_file(name).read_text().splitlines()[0].removeprefix("# ")


def dump_spec(spec: LabSpec) -> str:
    """The lab as JSON with all defaults, for the state directory and ``load_dumped``."""
    return spec.model_dump_json(by_alias=True, indent=2) + "\n"


def load_dumped(text: str) -> LabSpec:
    """The lab that ``dump_spec`` wrote. Raises SpecError for damaged text or that of another kailab version."""
    try:
        saved = LabSpec.model_validate_json(text, by_alias=True, by_name=False)
        # without defaults, which the user did not write: warnings are about what is in the lab file
        text = saved.model_dump_json(by_alias=True, exclude_defaults=True)
        return LabSpec.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        raise SpecError(
            "the lab's saved settings are not readable by this version of kailab",
            evidence=_lines(error),
            fix="use the version of kailab that created the lab",
        ) from None


def check_rules(spec: LabSpec, what: str) -> None:
    """Check a changed lab against the rules of lab files. Raises SpecError with the title ``what``."""
    try:
        LabSpec.model_validate_json(dump_spec(spec), by_alias=True, by_name=False)
    except ValidationError as error:
        raise SpecError(f"{what}: {_lines(error)[0]}", evidence=_lines(error)[1:], fix=_FIX) from None


def _lines(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False)
    return [f"{prefix(e['loc'])}{explain(e)}" if e["loc"] else e["msg"] for e in found]


def _load(file: Path, document: LabFileDocument, settings: Sequence[str], environ: Mapping[str, str] | None) -> LabSpec:
    found = [(flaw.line, f"{file}:{flaw.line}: {prefix(flaw.loc)}{flaw.what}") for flaw in document.flaws]
    data: dict[str, Any] = document.data
    applied: list[Override] = []
    for override in [*from_environment(os.environ if environ is None else environ), *from_command_line(settings)]:
        try:
            override.apply(data)
            applied.append(override)
        except BadOverrideError as bad:
            found.append((_LAST, f"{override.shown}: {bad}"))
    _absolute_paths(data, file, applied)
    spec, errors = _validate(data)
    for error in errors:
        loc, what = error["loc"], explain(error) + _blame(error, applied)
        if source := _source(loc, applied):
            where = "" if loc == source.loc else prefix(loc)
            found.append((_LAST, f"{source.shown}: {where}{what}"))
        elif not any(flaw.loc == loc for flaw in document.flaws):
            line = document.line(loc)
            found.append((line, f"{file}:{line}: {prefix(loc)}{what}"))
    if found or spec is None:
        lines = [text for _, text in sorted(found, key=lambda item: item[0])]
        origin = str(file) if any(line != _LAST for line, _ in found) else "the overrides"
        raise errors_in(f"{len(lines)} errors in {origin}", lines)
    return spec


_LAST = 1 << 31  # sorts overrides after the lines of the file


def errors_in(what: str, lines: list[str]) -> SpecError:
    """An error with several lines of evidence under the title ``what``, or the only line as the error itself."""
    return SpecError(lines[0], fix=_FIX) if len(lines) == 1 else SpecError(what, evidence=lines, fix=_FIX)


def _validate(data: dict[str, Any]) -> tuple[LabSpec | None, list[ErrorDetails]]:
    """Validate; if single values are wrong, validate again without them to find violated rules too."""
    try:
        return LabSpec.model_validate(data, by_alias=True, by_name=False), []
    except ValidationError as refused:
        errors = refused.errors(include_url=False)
    if any(error["type"] == RULE for error in errors):
        return None, errors
    rest = copy.deepcopy(data)
    for error in errors:
        *outer, key = error["loc"]
        here: Any = rest
        for word in outer:
            here = here[word]
        if not isinstance(here, dict):
            return None, errors  # an item of a list: its removal would shift the other indices
        here.pop(key, None)
    try:
        LabSpec.model_validate(rest, by_alias=True, by_name=False)
    except ValidationError as refused:
        wrong = [error["loc"] for error in errors]
        errors += [more for more in refused.errors(include_url=False) if _independent(more, wrong, data)]
    return None, errors


def _independent(error: ErrorDetails, wrong: list[Loc], data: dict[str, Any]) -> bool:
    """Whether a violated rule is independent of wrong values and of their siblings."""
    loc = error["loc"]
    if error["type"] != RULE or any(loc in (bad, bad[:-1]) or loc[:-1] == bad[:-1] != () for bad in wrong):
        return False
    for about in error["ctx"]["about"]:
        if any(about[: len(bad)] == bad or about[: len(bad) - 1] == bad[:-1] != () for bad in wrong):
            return False
        if about[0] not in data and any(len(bad) == 1 for bad in wrong):
            return False  # its section may be the misspelt one
    return True


def _source(loc: Loc, applied: list[Override]) -> Override | None:
    return next((override for override in reversed(applied) if override.covers(loc)), None)


def _blame(error: ErrorDetails, applied: list[Override]) -> str:
    """Text with the overrides that set the other values of a violated rule."""
    if error["type"] != RULE:
        return ""
    own = _source(error["loc"], applied)
    others = [(about, _source(about, applied)) for about in error["ctx"]["about"]]
    parts = [f"{dotted(about)} is from {other.shown}" for about, other in others if other and other is not own]
    return f" [{'; '.join(parts)}]" if parts else ""


def _absolute_paths(data: dict[str, Any], file: Path, applied: list[Override]) -> None:
    # absolute, because later commands run in other directories
    for section, key in _PATHS:
        inner = data.get(section)
        value = inner.get(key) if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or not isinstance(value, str) or not value:
            continue
        start = Path() if _source((section, key), applied) else file.parent
        try:
            inner[key] = str((start / Path(value).expanduser()).absolute())
        except RuntimeError:  # ~user that does not exist: opening the file reports it
            inner[key] = str((start / value).absolute())
