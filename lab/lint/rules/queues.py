"""Rules about Queues: what KAI refuses, ignores, or reads in another way than expected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.findings import Finding
from lab.lint.model import LintContext, Manifest, finding, rule
from lab.lint.queues import GROUP, RESOURCES, amount, ancestry, is_queue
from lab.lint.workloads import mapping

_LIMITS = "pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go; docs/queues/README.md, v0.17.0"
_UNITS = "docs/queues/README.md: cpu in millicores, memory in MB (10^6 bytes), gpu in devices"
_UNIT_NAMES = {"cpu": "millicores", "memory": "MB", "gpu": "devices"}


def _shares(manifest: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the resources of a queue with their shares."""
    rows = mapping(manifest.spec.get("resources")) if is_queue(manifest) else {}
    for resource in RESOURCES:
        if isinstance(rows.get(resource), dict):
            yield resource, rows[resource]


@rule("queue-api", "KAI: scheduling.run.ai/v2")
def api(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A Queue of another API, such as Volcano's or that of older releases."""
    if manifest.kind == "Queue" and manifest.api != f"{GROUP}v2":
        yield finding(("apiVersion",), f"KAI ignores Queues of {manifest.api}", f"write apiVersion: {GROUP}v2")


@rule("queue-namespaced", "KAI: Queues are cluster-scoped")
def namespaced(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A Queue with a namespace."""
    if is_queue(manifest) and manifest.meta.get("namespace"):
        what = "Queues are cluster-scoped: the namespace has no effect"
        yield finding(("metadata", "namespace"), what, "remove it", "note")


@rule("queue-without-resources", "pkg/admission/webhook/queuehooks/queue_validator.go: resources must be specified")
def no_resources(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A Queue without resources."""
    if is_queue(manifest) and not isinstance(manifest.spec.get("resources"), dict):
        what = "spec.resources is missing: the webhook refuses the queue"
        yield finding(("spec",), what, "set the shares of cpu, memory and gpu")


@rule("queue-limit-omitted", _LIMITS)
def omitted(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """An omitted limit: KAI reads it as 0."""
    if not is_queue(manifest) or not isinstance(manifest.spec.get("resources"), dict):
        return
    shares, rows = dict(_shares(manifest)), manifest.spec["resources"]
    for resource in RESOURCES:
        if "limit" not in shares.get(resource, {}) and isinstance(rows.get(resource, {}), dict):
            key = f"{resource}.limit" if resource in shares else resource
            yield finding(
                ("spec", "resources", resource),
                f"{key} is omitted, which KAI reads as limit 0: no pod that asks for {resource} runs in the queue",
                f"write {resource}: {{quota: …, limit: -1}}; -1 is unlimited",
            )


@rule("queue-quota-omitted", _LIMITS)
def no_quota(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """An omitted quota: KAI reads it as 0."""
    for resource, share in _shares(manifest):
        if "quota" not in share and "limit" in share:
            yield finding(
                ("spec", "resources", resource),
                f"{resource}.quota is omitted, which KAI reads as 0: no guaranteed share, no Deployments",
                "set a quota; -1 is unlimited",
                "warning",
            )


@rule("queue-weight-omitted", _LIMITS)
def no_weight(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """An omitted overQuotaWeight: KAI reads it as 0."""
    for resource, share in _shares(manifest):
        quota, limit = amount(share, "quota"), amount(share, "limit")
        if "overQuotaWeight" not in share and quota != -1 and (limit == -1 or limit > quota):
            yield finding(
                ("spec", "resources", resource),
                f"{resource}.overQuotaWeight is omitted, which KAI reads as 0: no share of unused resources beyond the"
                " quota",
                "write overQuotaWeight: 1",
                "note",
            )


@rule("queue-share-no-number", "KAI: quota, limit and overQuotaWeight are numbers")
def number(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A share that is not a number: the API server refuses quantities such as 10Gi."""
    rows = mapping(manifest.spec.get("resources")) if is_queue(manifest) else {}
    for resource in RESOURCES:
        if not isinstance(rows.get(resource, {}), dict):
            what = f"the API server refuses {resource}: {rows[resource]!r}, because it is not a map"
            yield finding(("spec", "resources", resource), what, "write {quota: …, limit: …}; -1 is unlimited")
    for resource, share in _shares(manifest):
        for key in ("quota", "limit", "overQuotaWeight"):
            value = share.get(key, 0)
            at = ("spec", "resources", resource, key)
            if isinstance(value, bool) or not isinstance(value, int | float):
                what = f"the API server refuses {resource}.{key}: {value!r}, because it is not a number"
                yield finding(at, what, f"write it in {_UNIT_NAMES[resource]}, without a unit")
            elif value < 0 and not (value == -1 and key != "overQuotaWeight"):
                what = f"{resource}.{key}: {value:g} has no meaning; -1 is unlimited"
                yield finding(at, what, "write -1, 0 or more", "warning")


@rule("queue-units", _UNITS)
def units(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A share in the wrong unit: cores instead of millicores, or bytes instead of megabytes."""
    for resource, share in _shares(manifest):
        for key in ("quota", "limit"):
            value = amount(share, key)
            what = fix = ""
            if resource == "cpu" and 0 < value < 100:
                what = f"cpu.{key}: {value:g} is {value:g} millicores"
                fix = f"for {value:g} cores write {value * 1000:g}"
            elif resource == "memory" and value >= 1e8:
                what = f"memory.{key}: {value:g} MB is {value / 1e6:g} TB"
                fix = f"write {value / 1e6:g} if these were bytes"
            elif resource == "gpu" and value > 100_000:
                what, fix = f"gpu.{key}: {value:g} devices", "count GPUs in devices"
            if what:
                yield finding(("spec", "resources", resource, key), what, fix, "warning")


@rule("queue-limit-below-quota", _LIMITS)
def below(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A limit below the quota."""
    for resource, share in _shares(manifest):
        quota, limit = amount(share, "quota"), amount(share, "limit")
        if "limit" in share and 0 <= limit < quota:
            yield finding(
                ("spec", "resources", resource, "limit"),
                f"{resource}: limit {limit:g} is below quota {quota:g}, so the queue never gets its quota",
                "raise the limit, or lower the quota",
                "warning",
            )


@rule("queue-parent-unknown", "KAI: an orphan queue is dropped with its children")
def orphan(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A parent queue that does not exist."""
    name = str(manifest.spec.get("parentQueue") or "") if is_queue(manifest) else ""
    if name and ctx.all_queues and name not in (ctx.queues or {}):
        what = f"parent queue {name!r} does not exist: KAI schedules nothing in this queue"
        yield finding(("spec", "parentQueue"), what, f"create queue {name} first", "warning")


@rule("queue-circle", "KAI: a queue tree has a root")
def circle(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Queues that are each other's parents: without a root they are never scheduled."""
    path = ancestry(manifest.name, ctx.queues or {}) if is_queue(manifest) else ()
    if path and ctx.queues and ctx.queues[path[-1]].parent in path:
        what = f"its parents form a loop: {' → '.join([*path, path[0]])}"
        yield finding(("spec", "parentQueue"), what, "remove one parentQueue")


@rule("queue-levels", "KAI #612, #621; hierarchical queues from 0.13; level 3 runs, measured on 0.9.8")
def levels(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A queue with neither parent nor children, where this version needs two levels: up to 0.12."""
    wanted = ctx.line.queue_levels
    if not is_queue(manifest) or not wanted or not ctx.all_queues or manifest.spec.get("parentQueue"):
        return
    if not any(queue.parent == manifest.name for queue in (ctx.queues or {}).values()):
        what = f"KAI {ctx.line.version} needs {wanted} levels, and this queue has neither parent nor children"
        yield finding(("spec",), f"{what}: nothing in it runs", "give it a parentQueue", "warning")


@rule("queue-children-over-quota", "pkg/admission/webhook/queuehooks/queue_validator.go warns of it")
def children(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """Children with more quota than their parent."""
    below = [queue for queue in (ctx.queues or {}).values() if queue.parent == manifest.name]
    for resource, share in _shares(manifest):
        own = amount(share, "quota")
        total = sum(max(queue.quota.get(resource, 0.0), 0.0) for queue in below)
        if own >= 0 and total > own:
            yield finding(
                ("spec", "resources", resource, "quota"),
                f"{resource}: children have quota {total:g} together, and this parent {own:g}",
                "raise the parent's quota, or set it to -1",
                "warning",
            )
