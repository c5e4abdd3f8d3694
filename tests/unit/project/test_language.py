"""Plain English in docstrings, comments, names, messages and pages: no private words."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PRIVATE = re.compile(
    r"(?<![\w-])(told(?!\.unschedulable)|said|stands(?!\s+in\s+for)|hanging|hangs|hasten\w*|moments|vigil|blotter"
    r"|shelter\w*|unjudged|meddl\w+|teeth|flames|doomed|mend(?:s|ed|ing)?|let\s+go"
    r"|tak(?:e|es|en|ing)\s+away|ma[dk](?:e|es|ing)\s+anew"
    r"|(?:can|could)(?:not)?\s+be\s+had|(?<!there )is\s+no(?!\s+longer)|are\s+none|goes\s+by|to\s+be\s+had)(?![\w-])",
    re.IGNORECASE,
)
JSON_KEYS = re.compile(r'"(?:moments|told)"|\bmoments=')
"""Keys and ids of published JSON, which stay, as the rule told.unschedulable."""
TEXT = {"COMMENT", "STRING", "FSTRING_MIDDLE", "NAME"}
PARTS = sorted(
    path.name for path in (ROOT / "lab").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
)
OTHERS = ("tests/unit", "tests/e2e", "tests/integration", "tests/support", "scripts", "noxfile.py", "kind", "manifests")
"""Checked besides lab/."""
QUOTES = {"noxfile.py": {"teeth"}}
"""Words that a file has to quote: the former name of a nox session."""
BINARY = {".pyc", ".gz"}
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each comment, string and name of a Python file with its line; any other file as a whole."""
    if path.suffix == ".py":
        with path.open("rb") as file:
            tokens = [t for t in tokenize.tokenize(file.readline) if tokenize.tok_name[t.type] in TEXT]
        yield from ((t.start[0], JSON_KEYS.sub("", t.string)) for t in tokens)
    else:
        yield 1, path.read_text()


def private(path: Path) -> list[str]:
    found = (
        (line + text.count("\n", 0, m.start()), m[1]) for line, text in texts(path) for m in PRIVATE.finditer(text)
    )
    return [f"{path.relative_to(ROOT)}:{line}: {word}" for line, word in found]


@pytest.mark.parametrize("part", PARTS)
def test_package_has_no_private_words(part: str) -> None:
    files = [ROOT / "lab" / part, *sorted((ROOT / "lab" / part).rglob("*"))]
    hits = [hit for path in files if path.suffix in {".py", ".toml", ".j2"} for hit in private(path)]
    assert hits == []


@pytest.mark.parametrize("part", OTHERS)
def test_folder_has_no_private_words(part: str) -> None:
    files = [ROOT / part, *sorted((ROOT / part).rglob("*"))]
    sources = [path for path in files if path.is_file() and path.suffix not in BINARY and path != Path(__file__)]
    hits = [hit for path in sources for hit in private(path)]
    assert [hit for hit in hits if hit.rpartition(" ")[2] not in QUOTES.get(part, ())] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_no_private_words(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]+`|^    .*?$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert [m[1] for m in PRIVATE.finditer(prose)] == []
