"""Alert rules of Prometheus: one for each invariant, and those for the watch itself and its canary pods."""

from __future__ import annotations

from typing import Any

from lab.invariants import Invariant
from lab.watch.names import INVARIANTS, NAME

Json = dict[str, Any]

SLOW_SECONDS = 30.0
"""Mean time to bind of the canary pods of a queue above which an alert fires."""

MEAN_SECONDS = (
    "sum by (queue) (rate(kailab_canary_bound_seconds_sum[10m]))"
    " / sum by (queue) (rate(kailab_canary_bound_seconds_count[10m]))"
)
"""The query of the mean seconds to bind."""


def alert_groups() -> list[Json]:
    """The groups of a PrometheusRule; those of invariants need no ``for``, as each invariant has its grace period."""
    return [
        {"name": f"{NAME}.invariants", "rules": [_invariant_rule(invariant) for invariant in INVARIANTS]},
        {"name": NAME, "rules": [_rule(*row) for row in _WATCH]},
    ]


def alert_name(invariant: Invariant) -> str:
    """``KaiGpuFractionsViolated`` for the invariant ``gpu-fractions``."""
    return f"Kai{''.join(word.capitalize() for word in invariant.id.split('-'))}Violated"


def violations_now(invariant: Invariant) -> str:
    """The query of an invariant's lasting violations, by known defect and the release that cures it."""
    return f'sum by (invariant, defect, cured_in) (kailab_invariant_violations{{invariant="{invariant.id}"}})'


_WATCH = (
    (
        "KailabWatchAbsent",
        "absent(kailab_build_info)",
        "10m",
        "warning",
        "No watch of KAI is scraped",
        "Check the Deployment kailab-watch/kailab-watch and the scrape configuration.",
    ),
    (
        "KailabWatchBlind",
        "min by (kind) (kailab_kind_up_to_date) == 0",
        "10m",
        "warning",
        "The watch does not see {{ $labels.kind }} objects",
        "Check the log of the watch: the API server, the ClusterRole kailab-watch, or a CRD of KAI is missing.",
    ),
    (
        "KaiCanaryNotBound",
        "sum by (queue) (increase(kailab_canary_failures_total[10m])) > 1",
        "",
        "warning",
        "KAI does not bind pods of queue {{ $labels.queue }}",
        "The log of the watch has the events of the canary pods; 'kailab explain' explains a pending pod.",
    ),
    (
        "KaiCanarySlow",
        f"{MEAN_SECONDS} > {SLOW_SECONDS:g}",
        "",
        "warning",
        "KAI takes {{ $value | humanizeDuration }} to bind a pod of queue {{ $labels.queue }}",
        "Check the load of the scheduler and the binder, and for a storm of pods.",
    ),
)
"""Name, query, duration, severity, summary, next action."""


def _invariant_rule(invariant: Invariant) -> Json:
    """A lasting violation, or one that came and went between two scrapes."""
    total = f'kailab_invariant_violations_total{{invariant="{invariant.id}"}}'
    query = f"{violations_now(invariant)} > 0 or on (invariant) sum by (invariant) (increase({total}[5m])) > 0"
    action = (
        "{{ with $labels.defect }}Known defect of KAI: {{ . }}, cured in {{ $labels.cured_in }}. {{ end }}"
        f"The log of Deployment {NAME}/{NAME} has the evidence."
    )
    return _rule(alert_name(invariant), query, "", "critical", f"Violated: {invariant.title}", action)


def _rule(name: str, query: str, lasts: str, severity: str, summary: str, action: str) -> Json:
    return {
        "alert": name,
        "expr": query,
        **({"for": lasts} if lasts else {}),
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": action},
    }
