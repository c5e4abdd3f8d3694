"""A comparison on a terminal, in a pipe, as JSON and as an HTML page."""

from __future__ import annotations

import io
import itertools
import json
import re
import threading
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lab.cli.tenant import compare as command
from lab.compare.measure import Round, measure
from lab.compare.model import Comparison, Side
from lab.compare.text import figures, order_of_starts, pairs
from lab.errors import LabError
from lab.report.compare_page import compare_page, round_charts
from lab.serialization import to_json
from lab.ui.compare import comparison_lines, render_comparison
from tests.support.compare_world import SPACE, gpus, recording, two_sides


@pytest.fixture
def comparison() -> Comparison:
    return two_sides()


def rendered(comparison: Comparison, *, width: int | None = None, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    render_comparison(comparison, Console(file=stream, width=400, color_system=None), width)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]


def test_figures_have_a_value_per_round(comparison: Comparison) -> None:
    found = {figure.name: (figure.a, figure.b) for figure in figures(comparison)}
    assert found["evictions"] == ("0 · 0", "1 · 0")
    assert found["pending at the end"] == ("0 · 0", "1 · 0")
    assert found["GPUs used"][0] == "2 (2) · 2 (2)"
    assert found["seconds to scheduled"] == ("0.50 / 0.90 / 1.90, 6 pods", "0.50 / 0.90 / 1.90, 5 pods")
    assert found["settled"][1] == "no, 10.0 s · yes, 10.0 s"
    assert found["own nodes"] == ("worker2", "none")


def test_order_of_runs_and_starts_is_shown(comparison: Comparison) -> None:
    assert comparison.order == "1A, 1B, 2B, 2A"
    assert replace(comparison, at_once=True).order == "both at once"
    assert order_of_starts(comparison, 2) == "both: a, b, c"
    assert order_of_starts(comparison, 1) == "A: a, b, c; B: a, b"


def test_pod_of_one_side_only_has_no_partner(comparison: Comparison) -> None:
    lonely = replace(comparison.runs[0], pods=comparison.runs[0].pods[:1])
    rows = pairs(replace(comparison, runs=(lonely, *comparison.runs[1:])), 1)
    assert [(lane, a is None, b is None) for lane, a, b in rows] == [
        ("a", False, False),
        ("b", True, False),
        ("c", True, False),
    ]


def test_json_has_order_sides_runs_and_differences(comparison: Comparison) -> None:
    data = json.loads(json.dumps(to_json(comparison)))
    assert data["order"] == "1A, 1B, 2B, 2A"
    assert "monotonic" in data["clock"]
    assert data["sides"]["b"]["seconds_to_scheduled"]["count"] == 5
    unlucky = data["runs"][1]
    assert unlucky["evictions"] == [{"pod": "b", "by": "preempt"}]
    assert unlucky["pending"][0]["why"][1] == "why [gpu.none]: all GPUs are taken"
    assert unlucky["packing"]["touched"] == 2
    assert unlucky["packing"]["stranded"] == 0.25
    assert unlucky["fairness"]["gpu_seconds"] == {"test": pytest.approx(0.5 * 9.4 + 1 * 3.0)}
    assert data["differences"][0]["lanes"] == ["a", "b"]


def test_pipe_gets_plain_lines(comparison: Comparison) -> None:
    lines = list(comparison_lines(comparison))
    assert lines[0].startswith("A team-ml: KAI 0.9.3 in the tenant; B team-research: KAI 0.16.8")
    assert "round 1: b: A 0.90 1.90  GPU 1 of worker (GPU-10000000); B 0.90 1.90  worker  evicted: preempt" in lines
    assert "annotation node_pool of a, b: A kai.scheduler/nodepool: x; B none" in lines
    assert "round 1, B: c is pending:" in lines
    assert "  why [gpu.none]: all GPUs are taken" in lines
    assert "round 1, B: <b>note</b>" in lines
    assert rendered(comparison).splitlines()[0] == lines[0]


def test_terminal_gets_tables_within_its_width(comparison: Comparison) -> None:
    text = rendered(comparison, width=100)
    assert max(map(len, text.splitlines())) <= 100
    for words in (
        "A  team-ml",
        "B  team-research",
        "seconds to running",
        "Differences in labels, annotations and PodGroups",
        "no room",
    ):
        assert words in text
    assert "╭" not in rendered(comparison, width=100, encoding="ascii")


def test_brackets_in_names_are_not_markup(comparison: Comparison) -> None:
    odd = replace(comparison, a=replace(comparison.a, tenant="[red]ml[/red]"))
    assert "[red]ml[/red]" in rendered(odd, width=120)


class Page(HTMLParser):
    """Collects tags and fetched URLs, and checks that tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [
            value or "" for name, value in attrs if name in ("src", "href") and not (value or "").startswith("#")
        ]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Page:
    page = Page()
    page.feed(text)
    assert page.open == []
    return page


def test_page_is_well_formed_and_fetches_nothing(comparison: Comparison) -> None:
    text = compare_page(comparison)
    page = read(text)
    assert page.fetched == []
    assert text.count('<div class="lanes">') == 8, "a timeline and the GPUs for each side of two rounds"
    assert "script" not in page.tags
    assert not re.search(r"url\(|@import|https?://", text)
    assert "prefers-color-scheme: dark" in text


def test_page_escapes_names_and_notes(comparison: Comparison) -> None:
    text = compare_page(comparison)
    assert "&lt;b&gt;note&lt;/b&gt;" in text
    assert "<b>note</b>" not in text
    assert "<i>batch" not in text


def test_page_of_an_empty_run_is_well_formed() -> None:
    side = Side("a", "x", "default", "the default scheduler", "", "1.34.4", ())
    empty = measure(Round("a", 1, 1, "x", SPACE), recording(), [], gpus(), {}, {})
    found = Comparison("demo", side, replace(side, letter="b"), 1, False, (empty, replace(empty, letter="b")), (), ())
    read(compare_page(found))
    assert "seconds to running (least / median / p95): A none; B none" in list(comparison_lines(found))


def test_both_sides_share_axis_and_lanes(comparison: Comparison) -> None:
    a, b = round_charts(comparison, 1)
    assert (a.side.letter, b.side.letter) == ("a", "b")
    assert a.pods.ticks == b.pods.ticks
    assert [lane.title for lane in a.pods.lanes] == [lane.title for lane in b.pods.lanes] == ["a", "b", "c"]
    assert (a.about[:9], b.about[:10]) == ("ran first", "ran second")


def test_bars_are_adjacent_and_within_the_track(comparison: Comparison) -> None:
    for side in round_charts(comparison, 1):
        for lane in side.pods.lanes:
            for before, after in itertools.pairwise(lane.bars):
                assert after.left == pytest.approx(before.left + before.width, abs=0.5)
            assert all(bar.left >= 0 and bar.left + bar.width <= 100.001 for bar in lane.bars)
    pods = round_charts(comparison, 1)[0].pods
    waiting, _, running = pods.lanes[0].bars
    assert (waiting.state, running.state) == ("waiting", "running")
    assert waiting.width == pytest.approx(0.5 / pods.seconds * 100, abs=0.1)
    assert running.left == pytest.approx(1.5 / pods.seconds * 100, abs=0.1)


def test_evicted_pod_ends_with_a_mark_and_pending_pod_only_waits(comparison: Comparison) -> None:
    pods = round_charts(comparison, 1)[1].pods
    lost, waits = pods.lanes[1:]
    assert lost.end == pytest.approx(4.0 / pods.seconds * 100, abs=0.1)
    assert (lost.words, lost.bad) == ("evicted: preempt", True)
    assert [bar.state for bar in waits.bars] == ["waiting"]
    assert (waits.words, waits.end) == ("pending", None)


def test_gpu_bars_show_held_shares(comparison: Comparison) -> None:
    first, second = round_charts(comparison, 1)[0].gpus
    assert [(bar.state, bar.left, bar.width) for bar in first.bars] == [("own", 0, 50), ("others", 50, 25)]
    assert (first.words, second.words) == ("0.5 + 0.25", "1")
    assert "held by a" in first.note


def test_comparison_is_printed_even_if_its_page_cannot_be_written(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: Pod\n")
    lab = SimpleNamespace(session=SimpleNamespace(cancel=threading.Event()))
    monkeypatch.setattr(command.Lab, "attach", lambda name: lab)
    monkeypatch.setattr(command, "compare_tenants", lambda *_, **__: comparison)
    page = str(tmp_path / "missing" / "page.html")
    done = CliRunner().invoke(command.app, ["a", "b", "-f", str(file), "--html", page, "--json"])
    assert isinstance(done.exception, LabError)
    assert json.loads(done.stdout)["order"] == "1A, 1B, 2B, 2A"
