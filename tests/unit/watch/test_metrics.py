"""Prometheus' text format."""

from __future__ import annotations

import pytest

from lab.watch.metrics import BUCKETS, Metric, Metrics, series_of
from tests.support.scrape import scraped


def test_text_has_help_type_and_series() -> None:
    made = Metrics(Metric("up", "Whether it runs."), Metric("asked_total", "Requests.", "counter", ("verb",)))
    made.set("up", 1)
    made.add("asked_total", 0, "get")
    made.add("asked_total", 2.5, "watch")
    assert made.text().splitlines() == [
        "# HELP up Whether it runs.",
        "# TYPE up gauge",
        "up 1",
        "# HELP asked_total Requests.",
        "# TYPE asked_total counter",
        'asked_total{verb="get"} 0',
        'asked_total{verb="watch"} 2.5',
    ]


def test_labels_are_escaped() -> None:
    made = Metrics(Metric("m", "M.", labels=("a",)))
    made.set("m", 1, 'x"\\\ny')
    assert 'm{a="x\\"\\\\\\ny"} 1' in made.text()


def test_replaced_series_end() -> None:
    made = Metrics(Metric("m", "M.", labels=("a",)))
    made.set("m", 1, "x")
    made.replace("m", {("y",): 2})
    assert scraped(made.text()) == {'m{a="y"}': 2}


def test_histogram_is_cumulative() -> None:
    made = Metrics(Metric("s", "Seconds.", "histogram", ("queue",)))
    for value in (0.3, 0.5, 4, 100):
        made.observe("s", value, "q")
    found = scraped(made.text())
    assert found['s_bucket{queue="q",le="0.5"}'] == 2
    assert found['s_bucket{queue="q",le="5"}'] == 3
    assert found['s_bucket{queue="q",le="60"}'] == 3
    assert found['s_bucket{queue="q",le="+Inf"}'] == found['s_count{queue="q"}'] == 4
    assert found['s_sum{queue="q"}'] == pytest.approx(104.8)
    assert len([name for name in found if "_bucket" in name]) == len(BUCKETS) + 1


def test_metric_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        Metrics().set("no", 1)


def test_series_are_read_back() -> None:
    made = Metrics(Metric("m", "M.", labels=("a", "b")), Metric("n", "N."))
    made.set("m", 0.25, 'x"\\\ny,{z="1"}', "")
    made.set("n", 3)
    assert list(series_of(made.text())) == [("m", {"a": 'x"\\\ny,{z="1"}', "b": ""}, 0.25), ("n", {}, 3.0)]
