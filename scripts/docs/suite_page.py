"""The page of the site with markers, fixtures and every test of the suites, from the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from lab.pytest_plugin import invariants, plugin, scheduling
from scripts.docs.markdown import inline, page, plain, prose, table

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "lab" / "pytest_plugin"
SUITES = ROOT / "tests" / "e2e"

_ABOUT = (
    "From the code of the plugin and of the suites. How to use them is in [pytest plugin and suites](pytest.md);"
    " `kailab e2e` runs the suites, `kailab e2e -k NAME` some of them."
)


def suite_page() -> dict[str, str]:
    """The page by path."""
    markers = [one.partition(": ") for one in (*plugin.MARKERS, *scheduling.MARKERS, invariants.MARKER)]
    blocks = [
        "## Markers\n\n" + table(("marker", "meaning"), [(inline(name), prose(text)) for name, _, text in markers]),
        "## Fixtures\n\n" + table(("fixture", "scope", "what it is"), sorted(_fixtures())),
        *(_suite(path) for path in sorted(SUITES.rglob("test_*.py"))),
    ]
    return {"reference/suites.md": page("Markers, fixtures and suites", _ABOUT, *blocks)}


def _fixtures() -> Iterator[tuple[str, str, str]]:
    for path in sorted(PLUGIN.glob("*.py")):
        for one in _functions(path):
            decorator = next((node for node in one.decorator_list if "pytest.fixture" in ast.unparse(node)), None)
            text = ast.get_docstring(one) or ""
            if decorator is None or one.name.startswith("_") or text.startswith("Deprecated"):
                continue
            words = {key.arg: ast.unparse(key.value) for key in getattr(decorator, "keywords", ())}
            if "autouse" not in words:
                yield inline(one.name), words.get("scope", "test").strip("'\""), prose(text.partition("\n\n")[0])


def _suite(path: Path) -> str:
    about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    tests = [one for one in _functions(path) if one.name.startswith("test_")]
    rows = [(inline(one.name), ", ".join(inline(name) for name in _marks(one)), prose(_says(one))) for one in tests]
    return f"## {plain(path.name)}\n\n{prose(about)}\n\n" + table(("test", "needs", "asserts"), rows)


def _says(one: ast.FunctionDef) -> str:
    text = (ast.get_docstring(one) or "").partition("\n\n")[0]
    return text or one.name.removeprefix("test_").replace("_", " ")


def _marks(one: ast.FunctionDef) -> Iterator[str]:
    for node in one.decorator_list:
        text = ast.unparse(node)
        if text.startswith("pytest.mark.") and not text.startswith("pytest.mark.parametrize"):
            yield text.removeprefix("pytest.mark.")


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return (node for node in tree.body if isinstance(node, ast.FunctionDef))
