"""The Go sources of a KAI tree, read by patterns: string constants, who uses them, and event reasons."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*"|`[^`]*`)|//[^\n]*|/\*.*?\*/', re.DOTALL)
_IMPORTS = re.compile(r"^import\s*(?:\((.*?)^\)|([^\n]+))", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(r'(?:(\w+)\s+)?"[^"]*?KAI-[Ss]cheduler/((?:pkg|cmd)/[^"]+)"')
_PACKAGE = re.compile(r"^package (\w+)", re.MULTILINE)
_CONSTANT = re.compile(r"^\s*(?:const\s+|var\s+)?(\w+)\s*(?:string\s*)?:?=\s*([^\n{(]+)$", re.MULTILINE)
_PART = re.compile(r'"([^"\\]*)"|(\w+(?:\.\w+)?)')
_NAME = re.compile(r'"(?:\\.|[^"\\\n])*"|`[^`]*`|\b(?:(\w+)\.)?([A-Za-z_]\w*)\b')
_SKIPPED = ("env-tests", "test_utils", "testdata", "/fake", "mock", "fairshare-simulator", "snapshot-tool")

COMPONENTS = {
    "admission": "admission",
    "binder": "binder",
    "crdupgrader": "crd-upgrader",
    "nodescaleadjuster": "node-scale-adjuster",
    "npe": "numa-placement-exporter",
    "numa-placement-exporter": "numa-placement-exporter",
    "operator": "operator",
    "podgroupcontroller": "podgroup-controller",
    "podgrouper": "pod-grouper",
    "queuecontroller": "queue-controller",
    "resourcereservation": "resource-reservation",
    "scalingpod": "scaling-pod",
    "scheduler": "scheduler",
    "webhookmanager": "webhook-manager",
}
"""Folder below pkg/ and cmd/: the component. Other folders, such as common, are shared."""


@dataclass(frozen=True)
class GoFile:
    """A source file without its comments."""

    folder: str
    text: str
    imports: dict[str, str]  # the name in the file: the folder

    @property
    def component(self) -> str:
        """The component of the file; empty for shared packages."""
        return COMPONENTS.get(self.folder.split("/")[1], "")


@dataclass(frozen=True)
class Use:
    """A place in a component that uses a string."""

    component: str
    before: str  # up to 60 characters of code before it
    after: str


class GoSource:
    """The Go files of a tree below pkg and cmd, without tests."""

    def __init__(self, root: Path) -> None:
        texts: dict[str, list[str]] = defaultdict(list)
        for path in sorted(path for top in ("pkg", "cmd") for path in (root / top).rglob("*.go")):
            folder = path.parent.relative_to(root).as_posix()
            whole = path.relative_to(root).as_posix()
            if not whole.endswith("_test.go") and not any(word in whole for word in _SKIPPED):
                texts[folder].append(_COMMENT.sub(lambda match: match[1] or "", path.read_text()))
        packages = {
            folder: match[1] for folder, found in texts.items() for text in found if (match := _PACKAGE.search(text))
        }
        self.files = [_file(folder, text, packages) for folder, found in texts.items() for text in found]

    @cached_property
    def constants(self) -> dict[tuple[str, str], str]:
        """The value of each string constant and variable, by folder and name."""
        open_ = {(file.folder, name): (rhs, file) for file in self.files for name, rhs in _CONSTANT.findall(file.text)}
        known: dict[tuple[str, str], str] = {}
        for _ in range(4):  # a constant may name another one
            for at, (rhs, file) in open_.items():
                if at not in known and (value := self._value(rhs, file, known)) is not None:
                    known[at] = value
        return known

    def _value(self, rhs: str, file: GoFile, known: dict[tuple[str, str], str]) -> str | None:
        parts = []
        for part in rhs.split("+"):
            match = _PART.fullmatch(part.strip())
            found = match and (match[1] if match[1] is not None else known.get(_where(file, match[2])))
            if found is None:
                return None
            parts.append(found)
        return "".join(parts)

    @cached_property
    def uses(self) -> dict[str, list[Use]]:
        """The places that use each string, by a literal or a constant; definitions of constants are left out."""
        found: dict[str, list[Use]] = defaultdict(list)
        for file in self.files:
            components = self.users_of(file.folder)
            for start, end, value in self._strings(file):
                before, after = file.text[max(0, start - 60) : start], file.text[end : end + 20]
                found[value] += [Use(component, before, after) for component in components]
        return found

    def _strings(self, file: GoFile) -> Iterator[tuple[int, int, str]]:
        for match in _NAME.finditer(file.text):
            line = file.text[file.text.rfind("\n", 0, match.start()) + 1 : match.end()]
            if match[2] is None:
                if not re.fullmatch(r"\s*(?:const\s+|var\s+)?\w+\s*(?:string\s*)?=\s*\"[^\"]*\"", line):
                    yield match.start(), match.end(), match[0][1:-1]
                continue
            value = self.constants.get(_where(file, match[0]))
            if value is not None and not re.match(r"\s*(?:string\s*)?=[^=]", file.text[match.end() :][:40]):
                yield match.start(), match.end(), value

    def users_of(self, folder: str) -> list[str]:
        """The component of a folder, or those that import a shared folder."""
        own = COMPONENTS.get(folder.split("/")[1], "")
        return [own] if own else sorted(self._importers.get(folder, ()))

    @cached_property
    def _importers(self) -> dict[str, set[str]]:
        """The components that import each shared folder, directly or through shared folders."""
        found: dict[str, set[str]] = defaultdict(set)
        for _ in range(3):
            for file in self.files:
                for folder in file.imports.values():
                    if COMPONENTS.get(folder.split("/")[1]) is None:
                        found[folder] |= {file.component} if file.component else found[file.folder]
        return found


def _file(folder: str, text: str, packages: dict[str, str]) -> GoFile:
    imports = {}
    for match in _IMPORTS.finditer(text):
        for alias, path in _IMPORT.findall(match[0]):
            imports[alias or packages.get(path, path.rpartition("/")[2])] = path
    return GoFile(folder, _IMPORTS.sub("", text), imports)


def _where(file: GoFile, name: str) -> tuple[str, str]:
    """The folder and the bare name of a constant as a file writes it."""
    package, _, bare = name.rpartition(".")
    return (file.imports.get(package, "") if package else file.folder), bare
