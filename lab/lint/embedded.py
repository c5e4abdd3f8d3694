"""Manifests in Markdown, shell scripts and other text: fenced blocks, here-documents, and pasted YAML."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FENCE = re.compile(r"\s*(?:>\s*)?(`{3,}|~{3,})\s*\{?\.?([\w+-]*)")
_HEREDOC = re.compile(r"(?:kubectl|\bcat|\boc|\btee|\blab)\b.*<<-?\s*[\"']?(\w+)[\"']?")
_OBJECT = re.compile(r"\s*(?:apiVersion|kind):\s+\S")
_YAML = re.compile(r"\s*(?:#|---|-\s|-$|[\w.\"'/-]+:(?:\s|$)|[\[\]{}\"',])")
_HELM = re.compile(r"\bhelm\b.*\b(?:install|upgrade|template)\b")
_SET = re.compile(r"--set(?:-string|-json|-literal)?[ =]+(\"[^\"]*\"|'[^']*'|\S+)")
_VERSION = re.compile(r"(?:--version[ =]+[\"']?|/kai-scheduler-)v?(\d+\.\d+\.\d+(?:-\w+(?:\.\d+)?)?)")
_LANGUAGES = ("yaml", "yml", "json", "k8s", "kubernetes")


@dataclass(frozen=True)
class Block:
    """One block of YAML; ``line`` is its first line, from 1, in the whole text."""

    line: int
    text: str
    whole: bool
    """It contains whole objects, with apiVersion and kind, so invalid YAML is a mistake and no fragment."""
    setting: bool = False
    """It is one value of KAI's chart that a command sets."""
    version: str = ""
    """The chart's version in that command, of --version or the archive; empty if it names none, or a shell variable."""


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of YAML of a text, in order."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        if fence := _FENCE.match(lines[number]):
            end = _closing(lines, number + 1, fence[1])
            yield from _fenced(lines[number + 1 : end], number + 2, fence[2].lower())
        elif heredoc := _HEREDOC.search(lines[number]):
            end = _end_of(lines, number + 1, heredoc[1])
            yield from _block(lines[number + 1 : end], number + 2)
        elif _HELM.search(lines[number]):
            end = number
            while end + 1 < len(lines) and lines[end].rstrip().endswith("\\"):
                end += 1
            yield from settings(lines[number : end + 1], number + 1)
        elif _starts(lines, number):
            end = number
            while end < len(lines) and _YAML.match(lines[end]):
                end += 1
            yield from _block(lines[number:end], number + 1)
            end -= 1
        else:
            end = number
        number = end + 1


def _fenced(lines: Sequence[str], first: int, language: str) -> Iterator[Block]:
    found = False
    number = 0
    while number < len(lines):
        if heredoc := _HEREDOC.search(lines[number]):
            found = True
            end = _end_of(lines, number + 1, heredoc[1])
            yield from _block(lines[number + 1 : end], first + number + 1)
            number = end
        number += 1
    yield from settings(lines, first)
    whole = any(_OBJECT.match(line) for line in lines)
    if not found and (language in _LANGUAGES or (whole and not language)):
        yield from _block(lines, first)


def settings(lines: Sequence[str], first: int) -> Iterator[Block]:
    """Yield what commands such as ``helm upgrade … kai-scheduler --set a.b=c`` set, a block per value."""
    number = 0
    while number < len(lines):
        start = number
        while lines[number].rstrip().endswith("\\") and number + 1 < len(lines):
            number += 1
        command = lines[start : number + 1]
        number += 1
        if not _HELM.search(command[0]) or not any("kai-scheduler" in line for line in command):
            continue
        named = _VERSION.search("\n".join(command))
        version = named[1] if named else ""
        for at, line in enumerate(command):
            for match in _SET.finditer(line):
                for pair in match[1].strip("\"'").split(","):
                    key, equals, value = pair.partition("=")
                    if equals and "\\" not in key:
                        yield Block(first + start + at, _nested(key, value), False, setting=True, version=version)


def _nested(key: str, value: str) -> str:
    """Return a dotted key as flow YAML; without the number of a list's item."""
    words = re.sub(r"\[\d+\]", "", key).split(".")
    text = ": {".join(json.dumps(word) for word in words)
    return "{" + f"{text}: {json.dumps(value)}" + "}" * len(words)


def _block(lines: Sequence[str], first: int) -> Iterator[Block]:
    if lines:
        yield Block(first, textwrap.dedent("\n".join(lines)), sum(bool(_OBJECT.match(line)) for line in lines) > 1)


def _starts(lines: Sequence[str], number: int) -> bool:
    """Whether an object starts here: apiVersion and kind within three lines."""
    near = [line.split(":")[0].strip() for line in lines[number : number + 3] if _OBJECT.match(line)]
    return bool(_OBJECT.match(lines[number])) and {"apiVersion", "kind"} <= set(near)


def _closing(lines: Sequence[str], number: int, fence: str) -> int:
    same = (at for at in range(number, len(lines)) if lines[at].strip(" \t>").startswith(fence))
    return next(same, len(lines))


def _end_of(lines: Sequence[str], number: int, word: str) -> int:
    return next((at for at in range(number, len(lines)) if lines[at].strip() == word), len(lines))
