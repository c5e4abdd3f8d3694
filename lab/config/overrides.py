"""Overrides of single values of a lab file, from the environment and the command line.

Command line: ``--set gpu.perNode=4``. The path has the keys joined by dots, the value is YAML. The path names a list's
item by index or name (``tenants.my-vcluster.mode=default``); the index after the last appends an item. ``\\.`` is a dot
inside a key (``supply.mirrors.ghcr\\.io=localhost:5001``).

Environment: ``KAILAB_SET_gpu__perNode=4``, with two underscores between keys. Names of shell variables cannot contain
'-': use the index of an item (``KAILAB_SET_tenants__0__mode=default``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.config.document import LabFileDocument, NotYamlError
from lab.config.models import type_at
from lab.config.rules import Loc, dotted
from lab.text import perhaps

ENVIRONMENT_PREFIX = "KAILAB_SET_"


class BadOverrideError(ValueError):
    """An override that cannot be applied, with the reason."""


@dataclass
class Override:
    """One override."""

    shown: str  # as the user wrote it, ``--set gpu.perNode=4``
    words: tuple[str, ...]  # the keys of its path
    text: str  # the value as YAML
    loc: Loc | None = field(default=None, init=False)  # the place that was set; None until applied
    created: Loc | None = field(default=None, init=False)  # the outermost place that did not exist before

    def apply(self, data: dict[str, Any]) -> None:
        """Write the value into ``data``. Raises BadOverrideError."""
        if not self.words or not all(self.words):
            raise BadOverrideError("write it as path=value, for example gpu.perNode=4")
        value = _parse(self.text)
        here: Any = data
        loc: Loc = ()
        for at, word in enumerate(self.words):
            key = self._key(here, word, loc)
            loc = (*loc, key)
            exists = (0 <= key < len(here)) if isinstance(key, int) else key in here
            if not exists:
                self.created = self.created or loc
            if at == len(self.words) - 1:
                _put(here, key, value)
            elif not exists or here[key] is None:
                _put(here, key, [] if getattr(type_at(loc), "__origin__", None) is tuple else {})
            here = here[key]
        self.loc = loc

    def covers(self, loc: Loc) -> bool:
        place = self.created or self.loc
        return place is not None and loc[: len(place)] == place

    @staticmethod
    def _key(here: Any, word: str, loc: Loc) -> int | str:
        if isinstance(here, dict):
            return word
        path = dotted(loc)
        if not isinstance(here, list):
            raise BadOverrideError(f"{path} is a single value and cannot contain '{word}'")
        if word.isdecimal():
            if int(word) > len(here):
                raise BadOverrideError(f"{path} has {len(here)} items, numbered from 0; {len(here)} appends one")
            return int(word)
        names = [item.get("name") if isinstance(item, dict) else None for item in here]
        if word in names:
            return names.index(word)
        known = [name for name in names if isinstance(name, str)]
        listed = f" (items: {', '.join(known)})" if known else " (the list is empty)"
        raise BadOverrideError(f"{path} has no item named '{word}'{perhaps(word, known) or listed}")


def from_environment(environ: Mapping[str, str]) -> list[Override]:
    """The overrides of the environment, outer places first, list items in order."""
    found = []
    for name in environ:
        if name.startswith(ENVIRONMENT_PREFIX):
            words = tuple(name.removeprefix(ENVIRONMENT_PREFIX).split("__"))
            order = [(0, int(word), "") if word.isdecimal() else (1, 0, word) for word in words]
            found.append((order, Override(f"{name}={environ[name]}", words, environ[name])))
    return [override for _, override in sorted(found, key=lambda pair: pair[0])]


def from_command_line(settings: Iterable[str]) -> list[Override]:
    """The overrides of the command line, in order."""
    found = []
    for setting in settings:
        path, sign, text = setting.partition("=")
        words = tuple(word.replace("\\.", ".") for word in re.split(r"(?<!\\)\.", path.strip())) if sign else ()
        found.append(Override(f"--set {setting}", words, text))
    return found


def _parse(text: str) -> Any:
    try:
        document = LabFileDocument(text)
    except NotYamlError as error:
        raise BadOverrideError(f"the value is not valid YAML: {error.why}") from None
    if document.flaws:
        raise BadOverrideError(f"the value is not accepted: {document.flaws[0].what}")
    return document.data


def _put(here: Any, key: int | str, value: Any) -> None:
    if isinstance(here, list) and key == len(here):
        here.append(value)
    else:
        here[key] = value
