"""Queues: what KAI refuses, ignores, or reads otherwise than was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.findings import Finding
from lab.lint.model import LintContext, Manifest, found, rule
from lab.lint.queues import GROUP, RESOURCES, amount, ancestry, is_queue

_LIMITS = "pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go; docs/queues/README.md, v0.17.0"
_UNITS = "docs/queues/README.md: cpu in millicores, memory in MB (10^6 bytes), gpu in devices"


def _shares(manifest: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = manifest.spec.get("resources")
    for resource in RESOURCES:
        share = rows.get(resource) if isinstance(rows, dict) else None
        if isinstance(share, dict):
            yield resource, share


@rule("queue-api", "a Queue of another API", "KAI: scheduling.run.ai/v2")
def api(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Volcano and older releases have Queues too; KAI reads its own."""
    if manifest.kind == "Queue" and manifest.api != f"{GROUP}v2":
        yield found(
            ("apiVersion",), f"{manifest.api} is not KAI's Queue: KAI does not see it", f"write apiVersion: {GROUP}v2"
        )


@rule("queue-namespaced", "a Queue with a namespace", "KAI: Queues are cluster-scoped")
def namespaced(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """kubectl refuses or ignores the namespace."""
    if is_queue(manifest) and manifest.meta.get("namespace"):
        yield found(
            ("metadata", "namespace"), "Queues are cluster-scoped: the namespace means nothing", "leave it out", "note"
        )


@rule(
    "queue-without-resources",
    "a Queue without resources",
    "pkg/admission/webhook/queuehooks/queue_validator.go: resources must be specified",
)
def no_resources(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The webhook refuses it."""
    if is_queue(manifest) and not isinstance(manifest.spec.get("resources"), dict):
        yield found(
            ("spec",),
            "spec.resources is missing: the webhook refuses the queue",
            "give cpu, memory and gpu their shares",
        )


@rule("queue-limit-omitted", "a limit that is left out counts as 0", _LIMITS)
def omitted(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Nothing that asks for that resource ever runs in the queue or below it."""
    if not is_queue(manifest) or not isinstance(manifest.spec.get("resources"), dict):
        return
    shares = dict(_shares(manifest))
    for resource in RESOURCES:
        if "limit" not in shares.get(resource, {}):
            part = f"{resource}.limit" if resource in shares else resource
            yield found(
                ("spec", "resources", resource),
                f"{part} is left out, which KAI reads as limit 0: no pod that asks for {resource} runs in it",
                f"write {resource}: {{quota: …, limit: -1}}; -1 is no limit",
            )


@rule("queue-quota-omitted", "a quota that is left out counts as 0", _LIMITS)
def no_quota(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """No share is guaranteed, and workloads that are not preemptible never run."""
    for resource, share in _shares(manifest) if is_queue(manifest) else ():
        if "quota" not in share and "limit" in share:
            yield found(
                ("spec", "resources", resource),
                f"{resource}.quota is left out, which KAI reads as 0: no guaranteed share, no Deployments",
                "give it a quota; -1 is unlimited",
                "warning",
            )


@rule("queue-weight-omitted", "an overQuotaWeight that is left out counts as 0", _LIMITS)
def no_weight(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The queue gets nothing of what is left over beyond its quota."""
    for resource, share in _shares(manifest) if is_queue(manifest) else ():
        quota, limit = share.get("quota", 0), share.get("limit")
        if "overQuotaWeight" not in share and limit is not None and quota != -1 and (limit == -1 or limit > quota):
            yield found(
                ("spec", "resources", resource),
                f"{resource}.overQuotaWeight is left out, which KAI reads as 0: no share of what is left over",
                "write overQuotaWeight: 1",
                "note",
            )


@rule("queue-share-no-number", "a share that is no number", "KAI: quota, limit and overQuotaWeight are numbers")
def number(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Quantities such as 10Gi are refused by the API server; -1 is the only number below 0."""
    for resource, share in _shares(manifest) if is_queue(manifest) else ():
        for key in ("quota", "limit", "overQuotaWeight"):
            value = share.get(key, 0)
            at = ("spec", "resources", resource, key)
            if isinstance(value, bool) or not isinstance(value, int | float):
                yield found(
                    at,
                    f"{resource}.{key}: {value!r} is refused: it takes a number",
                    f"in {_plain(resource)}, without a unit",
                )
            elif value < 0 and not (value == -1 and key != "overQuotaWeight"):
                yield found(at, f"{resource}.{key}: {value:g} has no meaning; -1 is unlimited", "write -1, 0 or more")


@rule("queue-units", "a share in the wrong unit", _UNITS)
def units(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Cores instead of millicores, bytes instead of megabytes: the queue is far smaller or larger than meant."""
    for resource, share in _shares(manifest) if is_queue(manifest) else ():
        for key in ("quota", "limit"):
            value = amount(share, key)
            at = ("spec", "resources", resource, key)
            what = fix = ""
            if resource == "cpu" and 0 < value < 100:
                what, fix = (
                    f"cpu.{key}: {value:g} is {value:g} millicores",
                    f"for {value:g} cores write {value * 1000:g}",
                )
            elif resource == "memory" and value >= 1e8:
                what = f"memory.{key}: {value:g} MB is {value / 1e6:g} TB"
                fix = f"write {value / 1e6:g} if these were bytes"
            elif resource == "gpu" and value > 100_000:
                what, fix = f"gpu.{key}: {value:g} devices", "count GPUs in devices"
            if what:
                yield found(at, what, fix, "warning")


@rule("queue-limit-below-quota", "a limit below the quota", _LIMITS)
def below(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The guarantee cannot be used."""
    for resource, share in _shares(manifest) if is_queue(manifest) else ():
        quota, limit = amount(share, "quota"), amount(share, "limit")
        if "limit" in share and 0 <= limit < quota:
            yield found(
                ("spec", "resources", resource, "limit"),
                f"{resource}: limit {limit:g} is below quota {quota:g}, so that the quota is never reached",
                "raise the limit, or lower the quota",
                "warning",
            )


@rule("queue-parent-unknown", "a parent queue that does not exist", "KAI: an orphan queue is dropped with its children")
def orphan(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Nothing in the queue is scheduled."""
    name = str(manifest.spec.get("parentQueue") or "") if is_queue(manifest) else ""
    if name and setting.queues is not None and name not in setting.queues:
        yield found(
            ("spec", "parentQueue"),
            f"parent queue {name!r} does not exist: nothing in this queue is scheduled",
            "make it first",
        )


@rule("queue-circle", "queues that are each other's parents", "KAI: a queue tree has a root")
def circle(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Such queues have no root and are never scheduled."""
    if not is_queue(manifest) or not setting.queues or manifest.name not in setting.queues:
        return
    path = ancestry(manifest.name, setting.queues)
    if setting.queues[path[-1]].parent in path:
        yield found(
            ("spec", "parentQueue"),
            f"its parents lead back to it: {' → '.join([*path, path[0]])}",
            "leave one parentQueue out",
        )


@rule("queue-levels", "more or fewer levels than this version takes", "KAI #612, #621; hierarchical queues from 0.13")
def levels(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Up to 0.12 a tree has exactly two levels: anything else is never scheduled."""
    wanted = setting.line.queue_levels
    if not wanted or not is_queue(manifest) or not setting.queues or manifest.name not in setting.queues:
        return
    depth = len(ancestry(manifest.name, setting.queues))
    has_children = any(queue.parent == manifest.name for queue in setting.queues.values())
    if depth > wanted or (depth < wanted and not has_children):
        what = f"it is on level {depth}" if depth > wanted else "it has neither parent nor children"
        yield found(
            ("spec", "parentQueue"),
            f"KAI {setting.line.version} takes trees of exactly {wanted} levels, and {what}: nothing in it runs",
            "give each leaf queue a parent without one"
            if depth < wanted
            else "flatten the tree, or take KAI 0.13 or newer",
        )


@rule(
    "queue-children-over-quota",
    "children with more quota than their parent",
    "pkg/admission/webhook/queuehooks/queue_validator.go warns of it",
)
def children(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """The children's guarantees cannot all be kept."""
    if not is_queue(manifest) or not setting.queues:
        return
    for resource, share in _shares(manifest):
        own = amount(share, "quota")
        parts = {q.name: q.quota.get(resource, 0.0) for q in setting.queues.values() if q.parent == manifest.name}
        total = sum(value for value in parts.values() if value > 0)
        if own >= 0 and total > own:
            yield found(
                ("spec", "resources", resource, "quota"),
                f"{resource}: children have quota {total:g} together, and this parent {own:g}",
                "raise the parent's quota, or -1",
                "warning",
            )


def _plain(resource: str) -> str:
    return {"cpu": "millicores", "memory": "MB", "gpu": "devices"}[resource]
