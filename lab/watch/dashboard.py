"""The dashboard of the watch for Grafana: one panel for each invariant, the canary pods, and the watch itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.watch.alerts import MEAN_SECONDS, violations_now
from lab.watch.names import INVARIANTS, NAME

Json = dict[str, Any]

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 4
_WIDTH, _HEIGHT = 24 // _COLUMNS, 6

_CAUSE = "{{defect}} cured in {{cured_in}}"
_QUEUE = "{{queue}}"


def dashboard() -> Json:
    """The model of the dashboard (Grafana 10 and later, schema version 39)."""
    invariants = [
        _panel(one.id, {_CAUSE: violations_now(one)}, about=f"{one.title} Grace period: {one.grace:g} s.", alarm=True)
        for one in INVARIANTS
    ]
    high = "histogram_quantile(0.95, sum by (queue, le) (rate(kailab_canary_bound_seconds_bucket[30m])))"
    failed = "sum by (queue) (increase(kailab_canary_failures_total[10m]))"
    canaries = [
        _panel("Mean seconds to bind", {_QUEUE: MEAN_SECONDS}, unit="s"),
        _panel("95 % of canary pods bound within", {_QUEUE: high}, unit="s"),
        _panel("Canary pods not bound", {_QUEUE: failed}, alarm=True),
    ]
    memory = "process_resident_memory_bytes and on (instance) kailab_build_info"
    own = [
        _panel("Objects", {"{{kind}}": "kailab_objects"}),
        _panel("KAI", {"{{version}}": "kailab_kai_info"}),
        _panel("Invariants that cannot be evaluated", {"{{invariant}}": "kailab_invariant_evaluated == 0"}, alarm=True),
        _panel("Duration of an evaluation", {"seconds": "kailab_evaluation_duration_seconds"}, unit="s"),
        _panel("Memory", {"resident": memory}, unit="bytes"),
        _panel("API requests", {"{{verb}}": "60 * rate(kailab_api_requests_total[5m])"}, about="Per minute."),
        _panel("Received from the API", {"bytes": "rate(kailab_api_received_bytes_total[5m])"}, unit="Bps"),
    ]
    rows = {"Violations that last now": invariants, "Canary pods": canaries, "The watch": own}
    return {
        "title": "KAI invariants (kailab)",
        "uid": NAME,
        "tags": ["kai-scheduler", "kailab"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": _placed(rows),
    }


def _panel(title: str, queries: Mapping[str, str], *, about: str = "", unit: str = "none", alarm: bool = False) -> Json:
    """A panel of time series; ``queries`` by the legend of their series. With ``alarm``, all above 0 is red."""
    steps = [{"color": "green", "value": None}, *([{"color": "red", "value": 1}] if alarm else [])]
    defaults: Json = {"unit": unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if alarm:
        defaults |= {"color": {"mode": "thresholds"}, "custom": {"fillOpacity": 30}}
    return {
        "type": "timeseries",
        "title": title,
        "description": about,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for at, (legend, query) in enumerate(queries.items())
        ],
    }


def _placed(rows: Mapping[str, Iterable[Json]]) -> list[Json]:
    """The panels under headings, on Grafana's grid of 24 columns, with their ids."""
    panels: list[Json] = []
    top = 0
    for heading, group in rows.items():
        panels.append(
            {"type": "row", "title": heading, "collapsed": False, "panels": [], "gridPos": _at(0, top, 24, 1)}
        )
        top += 1
        for number, panel in enumerate(group):
            row, column = divmod(number, _COLUMNS)
            panels.append({**panel, "gridPos": _at(column * _WIDTH, top + row * _HEIGHT, _WIDTH, _HEIGHT)})
        top = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels)
    return [{"id": number, **panel} for number, panel in enumerate(panels, 1)]


def _at(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}
