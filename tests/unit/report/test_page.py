"""The HTML report page: well-formed, offline, with links to artifacts, and escaped text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.report.lab_report import LabReport
from lab.report.page import render_page, write_page
from lab.report.suite_run import CaseRun, SuiteRun
from lab.report.timing_chart import seconds
from tests.support.gpu_map_world import GpuCluster, demo, many, node

VOID = {"meta", "link", "br", "input", "img", "hr"}
FACTS = {"lab": "demo", "kai_version": "0.16.8", "gpu_mode": "simulated", "no_kai": ""}
BAD = '<script>alert(1)</script> & "quotes"'


class Page(HTMLParser):
    """Parses a page and fails if its elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.found if name == tag and wanted.items() <= attrs.items()]

    @property
    def cards(self) -> list[dict[str, str]]:
        return [attrs for _, attrs in self.found if {"card", "cell"} & set(attrs.get("class", "").split())]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    folder = tmp_path / "out" / "tests-test_bad [host] #1"
    (folder / "host").mkdir(parents=True)
    for name in ("kailab-index.txt", "host/nodes.yaml"):
        (folder / name).write_text("x")
    return folder


def suite(artifacts: Path | str = "", **more: Any) -> SuiteRun:
    tests = (
        CaseRun("tests/e2e/test_kai.py::test_good[host]", "passed", 100, 1, 2, 1, "gw0"),
        CaseRun(
            "tests/e2e/test_kai.py::test_bad[host]", "failed", 101, 1, 8, 1, "gw1", BAD, f"E   {BAD}", str(artifacts)
        ),
        CaseRun("tests/e2e/test_kai.py::test_skipped", "skipped", 102, why="needs 3 GPUs"),
    )
    known = {"status": 1, "command": "pytest -n 4", "facts": FACTS, "tests": tests, "seconds": 78.2}
    return SuiteRun("demo", "2026-11-21T10:00:00+00:00", **{**known, **more})


def test_page_shows_suite_gpus_steps_and_facts(artifacts: Path) -> None:
    gpus = demo()
    run = suite(artifacts, before=GpuCluster(nodes=[node("a")]).map(), after=gpus.map())
    record = {"seconds": 50, "steps": [{"step": "cluster", "outcome": "changed", "seconds": 24.0}]}
    page = Page(render_page(LabReport("demo", FACTS, record=record, suite=run), artifacts.parent))
    for words in (
        "Lab demo",
        "1 failed, 1 passed, 1 skipped in 1 min 18 s",
        "2026-11-21 10:00 UTC, exit status 1",
        "simulated: everything is real except the silicon",
        "Failures",
        "Before the run",
        "After the run",
        "75 % used, 25 % free",
        "Steps of kailab up",
        "cluster",
        "24.0 s",
        "gw0",
        "needs 3 GPUs",
        "0.16.8",
        "pytest -n 4",
        "default/big",
        "no nodes with enough resources were found",
    ):
        assert words in page.text
    assert "No KAI Scheduler" not in page.text
    assert len(page.cards) == 4


@pytest.mark.parametrize(
    ("outcomes", "status", "heading"),
    [
        (("passed", "skipped"), 0, "✓ passed"),
        (("skipped", "skipped"), 0, "✗ not proven"),
        (("xfailed",), 0, "✗ not proven"),
        (("passed",), 2, "✗ failed"),
        ((), 5, "✗ no test ran"),
    ],
)
def test_run_without_a_passed_test_did_not_pass(
    tmp_path: Path, outcomes: tuple[str, ...], status: int, heading: str
) -> None:
    tests = tuple(CaseRun(f"a.py::test_{n}", outcome, n) for n, outcome in enumerate(outcomes))
    page = Page(render_page(LabReport("demo", suite=suite(tests=tests, status=status)), tmp_path))
    assert heading in page.text


def test_page_needs_no_network(artifacts: Path) -> None:
    text = render_page(LabReport("demo", FACTS, gpus=many().map(), suite=suite(artifacts)), artifacts.parent)
    page = Page(text)
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none';")
    assert not re.search(r"(src|href)=\"(https?:)?//|@import|url\(", text)
    assert not page.all("link")
    assert all("src" not in attrs for attrs in page.all("script"))


def test_text_of_tests_is_escaped(artifacts: Path) -> None:
    page = Page(render_page(LabReport("demo", {"note": BAD}, suite=suite(artifacts)), artifacts.parent))
    assert len(page.all("script")) == 1
    assert page.text.count(BAD) >= 3


def test_artifact_links_are_relative_to_the_page(artifacts: Path) -> None:
    page = Page(render_page(LabReport("demo", suite=suite(artifacts)), artifacts.parent))
    links = [attrs["href"] for attrs in page.all("a") if not attrs["href"].startswith("#")]
    folder = "tests-test_bad%20%5Bhost%5D%20%231"
    assert links[:3] == [f"{folder}/kailab-index.txt", f"{folder}/host/nodes.yaml", f"{folder}/"]
    elsewhere = Page(render_page(LabReport("demo", suite=suite(artifacts)), artifacts.parent.parent / "reports"))
    assert any(attrs["href"] == f"../out/{folder}/kailab-index.txt" for attrs in elsewhere.all("a"))


def test_missing_artifacts_are_named_but_not_linked(tmp_path: Path) -> None:
    page = Page(render_page(LabReport("demo", suite=suite(tmp_path / "gone")), tmp_path))
    assert f"artifacts were in {tmp_path / 'gone'}" in page.text
    assert all(attrs["href"].startswith("#") for attrs in page.all("a"))


def test_failures_come_first_and_expanded(artifacts: Path) -> None:
    page = Page(render_page(LabReport("demo", suite=suite(artifacts)), artifacts.parent))
    tests = [attrs for attrs in page.all("details") if "test" in attrs["class"].split()]
    assert [attrs["data-outcome"] for attrs in tests] == ["failed", "failed", "passed", "skipped"]
    assert ["open" in attrs for attrs in tests] == [True, False, False, False]


def test_lab_without_kai_has_a_red_notice() -> None:
    page = Page(render_page(LabReport("cpu", {"no_kai": "no registry answers"}), Path("/")))
    assert "No KAI Scheduler in this lab: no registry answers" in page.text
    assert "The suites have not run yet" in page.text
    assert page.all("p", **{"class": "notice bad"})


def test_run_without_tests_is_not_green() -> None:
    page = Page(render_page(LabReport("demo", suite=suite(tests=(), status=5)), Path("/")))
    assert "✗ no test ran" in page.text
    assert page.all("div", **{"class": "verdict bad"})


def test_good_run_is_green() -> None:
    good = suite(status=0, tests=suite().tests[:1])
    page = Page(render_page(LabReport("demo", suite=good), Path("/")))
    assert "✓ passed 1 passed in" in page.text
    assert "Failures" not in page.text


@pytest.mark.parametrize(
    "gpus", [GpuCluster(nodes=[node("a")]).map(), demo().map(), many().map()], ids=["0", "4", "64"]
)
def test_gpu_pictures_of_any_size_are_well_formed(gpus: Any) -> None:
    page = Page(render_page(LabReport("demo", gpus=gpus), Path("/")))
    assert len(page.cards) == len(gpus.gpus) * (2 if len(gpus.gpus) > 8 else 1)
    for attrs in page.cards:
        assert attrs["title"].startswith("GPU ")


def test_notes_are_shown() -> None:
    page = Page(
        render_page(LabReport("demo", suite=suite(notes=("GPUs were silent",)), notes=("and so on",)), Path("/"))
    )
    assert "GPUs were silent" in page.text
    assert "and so on" in page.text


def test_page_is_written_atomically(tmp_path: Path) -> None:
    path = write_page(tmp_path / "a" / "page.html", LabReport("demo"))
    assert path == tmp_path / "a" / "page.html"
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(LabError) as error:
        write_page(tmp_path / "file" / "page.html", LabReport("demo"))
    assert error.value.fix


@pytest.mark.parametrize(
    ("value", "words"), [(0.123, "0.12 s"), (12.34, "12.3 s"), (78.2, "1 min 18 s"), (7300, "2 h 01 min")]
)
def test_times_have_units(value: float, words: str) -> None:
    assert seconds(value) == words
