"""The benchmark's figures: spread, history, limits, and the critical path of a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.errors import LabError
from scripts.bench import figures as module
from scripts.bench import up
from scripts.bench.commands import Timed
from scripts.bench.figures import Figures, StepUse, exceeded, last_run, limits_of, remember, summary, table
from scripts.bench.page import page
from scripts.bench.sides import Bench


def figures(**values: list[float]) -> Figures:
    return Figures(values=dict(values), facts={"profile": "demo"}, machine={"cpus": 2, "memory_gib": 24, "arch": "x"})


def test_summary_has_median_and_percentile() -> None:
    found = summary([float(n) for n in range(1, 21)])
    assert (found["median"], found["min"], found["max"]) == (10.5, 1, 20)
    assert 19 <= found["p95"] < 20
    assert summary([3.0])["p95"] == 3


def test_last_run_is_the_newest_on_a_machine_and_a_lab_like_this(tmp_path: Path) -> None:
    history = tmp_path / "sub" / "bench.jsonl"
    assert last_run(history, figures().document()) is None
    for number, profile in enumerate(("demo", "demo", "small")):
        one = figures(status=[float(number)])
        one.facts["profile"] = profile
        remember(history, one.document())
    bigger = figures(status=[9.0])
    bigger.machine["cpus"] = 64
    remember(history, bigger.document())
    found = last_run(history, figures().document())
    assert found is not None
    assert found["figures"]["status"]["values"] == [1.0]


def test_damaged_history_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("{")
    with pytest.raises(LabError, match="unreadable"):
        last_run(tmp_path / "h", figures().document())


def test_table_compares_medians_with_the_last_run() -> None:
    now, before = figures(status=[1.0, 3.0], e2e=[150.0]).document(), figures(status=[4.0]).document()
    rows = table(now, before)
    assert rows[1].split() == ["status", "2", "1.00", "2.00", "2.90", "3.00", "0.50"]
    assert rows[2].split()[-1] == "-"


def test_limits_come_from_words_and_files(tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text('status = 1.2\n"second up" = 2\n')
    limits = limits_of([str(tmp_path / "limits.toml"), "up/script ratio=0.25"])
    assert limits == {"status": 1.2, "second up": 2.0, "up/script ratio": 0.25}
    for wrong in ("status=quick", str(tmp_path / "missing")):
        with pytest.raises(LabError, match="unusable"):
            limits_of([wrong])


def test_limits_name_what_is_too_slow_or_was_not_measured() -> None:
    document = figures(status=[1.0, 1.0, 9.0]).document()
    assert exceeded(document, {"status": 1.2}) == []
    assert exceeded(document, {"status.p95": 1.2}) == ["p95 of status is 8.2, more than 1.2"]
    assert exceeded(document, {"e2e": 150}) == ["e2e was not measured; measured: status"]


def test_step_is_bound_by_what_the_nodes_used() -> None:
    step = StepUse("cluster", 0, 10, critical=True, cpu=16.0)
    assert (step.verdict(2), step.verdict(4)) == ("CPU", "waiting")
    assert StepUse("plan", 0, 10, critical=True, cpu=None).verdict(2) == "not measured"


def test_cpu_between_two_times_is_interpolated() -> None:
    run = Timed(10, 1, containers=((2.0, 1.0), (4.0, 5.0), (6.0, 5.0)))
    assert run.between(0, 2) == 1.0
    assert run.between(3, 4) == 2.0
    assert run.between(4, 60) == 0.0
    assert Timed(10, 1).between(0, 2) is None


def test_steps_name_the_chain_that_the_end_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        ("cluster", 0.0, 20.0),
        ("network", 20.0, 5.0),
        ("gpus", 20.0, 2.0),
        ("kai", 25.0, 20.0),
        ("quick", 25.0, 1.0),
    ]
    record = {
        "seconds": 45.0,
        "steps": [{"step": n, "began": b, "seconds": s, "outcome": "changed"} for n, b, s in rows],
    }
    monkeypatch.setattr(up, "last_record", lambda _: record)
    needs = {
        "cluster": (),
        "network": ("cluster",),
        "gpus": ("cluster",),
        "kai": ("network", "gpus"),
        "quick": ("gpus",),
    }
    steps = [SimpleNamespace(id=name, needs=before) for name, before in needs.items()]
    bench = SimpleNamespace(lab=SimpleNamespace(paths=SimpleNamespace(runs=None)), plan=SimpleNamespace(steps=steps))
    found = up.steps_of(cast("Bench", bench), Timed(47.0, 1.0, ((47.0, 47.0),)))
    assert [step.step for step in found if step.critical] == ["start and plan", "cluster", "network", "kai"]
    cluster = next(step for step in found if step.step == "cluster")
    assert (cluster.began, cluster.cpu) == (2.0, pytest.approx(20.0))


def test_page_shows_figures_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    one = figures(status=[1.0])
    one.notes.append("a < b")
    one.steps = (StepUse("kai", 1.0, 2.0, critical=True, cpu=3.5),)
    document: dict[str, Any] = one.document()
    text = page(document, table(document, None))
    assert "a &lt; b" in text
    assert 'class="critical" style="margin-left:33.33%;width:66.67%"' in text
    assert "<td>CPU</td>" in text
