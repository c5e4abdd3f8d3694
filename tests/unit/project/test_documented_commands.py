"""Every ``kailab`` command in the pages exists, with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from lab.cli.app import app

ROOT = Path(__file__).parents[3]
ROOT_COMMAND: Any = typer.main.get_command(app)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^(?: {4}|\$ )kailab (?P<words>[^\n]*(?:\\\n[^\n]*)*)", re.MULTILINE)
_INLINE = re.compile(r"`kailab (?P<words>[^`]+)`")
_ENDS = re.compile(r"[#|;&<>)(]|\.\.\.|…")
"""What ends a command in a shell, or a comment."""


def commands(text: str) -> Iterator[str]:
    """The commands of a page: in blocks and in sentences, without what follows them."""
    text = _FENCED.sub(lambda block: "\n".join(f"    {line}" for line in block[1].splitlines()), text)
    for pattern in (_BLOCK, _INLINE):
        for found in pattern.finditer(text):
            yield _ENDS.split(found["words"].replace("\\\n", " "))[0].strip()


def problem(words: str) -> str:
    """What is wrong with a command; empty if nothing is."""
    try:
        tokens = shlex.split(words)
    except ValueError:
        return ""  # a quotation mark opens a document
    command: Any = ROOT_COMMAND
    path = "kailab"
    for token in tokens:
        if token == "--":
            break
        if token.startswith("-"):
            known = {name for part in command.params for name in (*part.opts, *part.secondary_opts)}
            if (option := token.partition("=")[0]) not in known | {"--help", "--debug"}:
                return f"{path}: no option {option}"
        elif hasattr(command, "list_commands"):
            chosen = command.get_command(None, token)
            if chosen is None:
                return "" if token.isupper() else f"{path}: no command {token}"
            command, path = chosen, f"{path} {token}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_exist(page: Path) -> None:
    assert [found for words in commands(page.read_text()) if (found := problem(words))] == []


def test_mistakes_are_found() -> None:
    assert problem("up --yess") == "kailab up: no option --yess"
    assert problem("tenant ad x") == "kailab tenant: no command ad"
    assert problem("up --yes --set gpu.perNode=4") == ""
