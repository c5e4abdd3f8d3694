"""The documentation site's generated pages, the check of the built site, and pages that repeat data of the code.

``nox -s docs`` builds the site itself.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer.main
import yaml

from lab.cli.app import app
from lab.config import load_profile, profile_names
from lab.errors import EXIT_CODES
from lab.kai import lines
from lab.operations.rules import described, rules
from scripts.docs.check_site import problems
from scripts.docs.generated import generated
from scripts.docs.markdown import code, plain, prose

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return generated()


def test_each_rule_has_a_page_with_its_error_text_as_title(pages: dict[str, str]) -> None:
    for one in rules():
        text = pages[f"{one.page}.md"]
        title = json.loads(text.splitlines()[1].removeprefix("title: "))
        assert title == " ".join(one.error_text.split())
        assert f"--explain {one.id}" in text
        assert f"[{one.id}]({one.id}.md)" in pages[f"reference/rules/{one.area}/index.md"]


def test_page_of_a_rule_has_example_cure_versions_and_source(pages: dict[str, str]) -> None:
    (rule,) = described("bind.failed")
    text = pages[f"{rule.page}.md"]
    assert rule.example is not None
    assert plain(rule.example.origin) in text
    for heading in ("## What to do", "## Example", "## KAI versions", "## Facts"):
        assert heading in text
    assert plain(rule.source) in text


def test_lint_page_names_the_versions_on_which_the_rule_finds_its_example(pages: dict[str, str]) -> None:
    assert "every version line" in pages["reference/rules/lint/fraction-key-unknown.md"]
    text = pages["reference/rules/lint/queue-levels.md"]
    assert "../../kai/0.12.23.md" in text
    assert "../../kai/0.16.8.md" not in text


def test_each_version_line_defect_and_command_has_a_page(pages: dict[str, str]) -> None:
    assert {f"reference/kai/{name}.md" for name in lines()} < pages.keys()
    assert "(../rules/defect/over-packed-burst.md)" in "".join(
        text for path, text in pages.items() if path.startswith("reference/kai/")
    )
    commands = typer.main.get_command(app).list_commands(None)  # type: ignore[attr-defined,arg-type]
    assert {f"reference/cli/{name}.md" for name in commands} < pages.keys()
    assert "## kailab tenant add" in pages["reference/cli/tenant.md"]
    assert "own-kai: the KAI inside." in pages["reference/cli/tenant.md"]


def test_keys_of_the_lab_file_are_those_of_the_schema(pages: dict[str, str]) -> None:
    text = pages["reference/lab-file-keys.md"]
    for section in ("## gpu.pools[]", "## queues[].gpu", "## tenants[].quota", "## kai"):
        assert section in text
    assert json.loads(pages["lab.schema.json"])["$id"] == "urn:kailab:lab-file"


def test_suites_page_has_markers_fixtures_and_tests(pages: dict[str, str]) -> None:
    text = pages["reference/suites.md"]
    for name in ("gpu_node_lease", "kai(version", "breaks(", "test_fractions_share_one_gpu"):
        assert plain(name) in text
    assert plain("gpu_home") not in text  # a former name


def test_nothing_generated_is_in_the_repository(pages: dict[str, str]) -> None:
    assert [path for path in pages if (DOCS / path).exists()] == []


def test_navigation_leads_to_pages(pages: dict[str, str]) -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE))
    assert len(named) > 30
    assert [path for path in named if path not in pages and not (DOCS / path).is_file()] == []
    assert yaml.safe_load(text)["strict"] is True


def test_text_is_not_read_as_markup() -> None:
    assert plain("a <b> [c](d) *e* |") == "a &#60;b&#62; &#91;c&#93;(d) &#42;e&#42; &#124;"
    assert prose("run ``x|y`` *now*") == "run <code>x&#124;y</code> &#42;now&#42;"
    assert code("a\n```\nb").startswith("````text\n")


def test_check_finds_broken_links_and_servers(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="#top">ok</a><a href="other.html#here">ok</a><a href="https://example.org">ok</a>'
        '<a href="#gone">1</a><a href="missing.html">2</a><a href="other.html#gone">3</a>'
        '<script src="https://cdn.example/x.js"></script><img src="missing.png">'
    )
    (tmp_path / "other.html").write_text('<p id="here">')
    (tmp_path / "site.css").write_text("@import 'https://fonts.example/a.css'; a { background: url(img.png) }")
    assert list(problems(tmp_path)) == [
        "index.html: loads https://cdn.example/x.js",
        "index.html: #gone has no such anchor",
        "index.html: missing.html does not exist",
        "index.html: other.html#gone has no such anchor",
        "index.html: missing.png does not exist",
        "site.css: loads https://fonts.example/a.css",
    ]


def test_page_of_exit_codes_has_those_of_the_code() -> None:
    page = (DOCS / "reference" / "exit-codes.md").read_text()
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == set(EXIT_CODES)


def test_page_of_profiles_has_those_of_the_code() -> None:
    rows = re.findall(
        r"^\| `(\w+)`.*?\| .*? \| (.*?) \|", (DOCS / "reference" / "profiles.md").read_text(), re.MULTILINE
    )
    assert sorted(name for name, _ in rows) == sorted(profile_names())
    for name, gpus in rows:
        assert (gpus == "none") == (load_profile(name, (), {}).gpu.mode == "none")


def test_readme_is_a_door() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    links = re.findall(r"\]\(((?!https?:)[^)#]+)", text)
    assert len(links) > 15
    assert [one for one in links if not (ROOT / one).exists()] == []
