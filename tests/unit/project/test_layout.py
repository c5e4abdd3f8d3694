"""Layout of the source: folders of tests, imports, and the size of files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = sorted(path for top in ("lab", "tests") for path in (ROOT / top).rglob("*.py"))

LINES = 400
"""Maximum lines of a file."""

NOT_MIRRORED = {"bench", "e2e", "fault_injection", "probe", "project"}
"""Folders of tests/unit without a package in lab/: scripts/bench, helpers of tests/e2e, scripts/fault_injection,
the probe, and the repository itself."""

# Lower these numbers after removing some; never raise them.
TYPE_CHECKING_BLOCKS = 15
LOCAL_IMPORTS = 6


def test_no_test_imports_another_test() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "tests")
        for module in _imports(ast.parse(path.read_text()))
        if module.startswith("tests.") and any(part.startswith("test_") for part in module.split("."))
    ]
    assert not wrong, "code shared by tests belongs in tests/support"


def test_unit_tests_mirror_the_packages() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {str(path.parent.relative_to(unit)) for path in unit.rglob("test_*.py") if path.parent != unit}
    assert {name for name in folders if not (ROOT / "lab" / name).is_dir()} == NOT_MIRRORED


def test_files_are_short() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > LINES} == {}


def test_public_class_names_are_unique() -> None:
    classes: dict[str, list[str]] = {}
    for path in SOURCES:
        if path.is_relative_to(ROOT / "lab"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    classes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in classes.items() if len(paths) > 1} == {}


def test_no_line_skips_the_formatter() -> None:
    mark = "fmt: " + "skip"
    assert [path for path in SOURCES if mark in path.read_text()] == []


def test_local_imports_do_not_increase() -> None:
    trees = [ast.parse(path.read_text()) for path in SOURCES if path.is_relative_to(ROOT / "lab")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    blocks = [node for node in nodes if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    own = [node for function in functions for node in ast.walk(function) if _of_lab(node)]
    assert len(blocks) <= TYPE_CHECKING_BLOCKS
    assert len({id(node) for node in own}) <= LOCAL_IMPORTS


def _imports(tree: ast.AST) -> Iterator[str]:
    """The modules, and the names from modules, that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _of_lab(node: ast.AST) -> bool:
    """Whether a node imports from lab."""
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "lab" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lab"
