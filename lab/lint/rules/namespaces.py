"""Namespaces that the host's KAI looks at, beside tenants with a KAI of their own."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.lint.model import LintContext, Manifest, found, rule


@rule(
    "namespace-opt-in",
    "a workload in a namespace that the host's KAI leaves alone",
    "KAI global.namespaceLabelSelector: the webhooks' namespaceSelector, and --namespace-label-selector of the "
    "pod-grouper",
)
def opt_in(manifest: Manifest, setting: LintContext) -> Iterator[Finding]:
    """Beside a tenant with a KAI of its own, the host's KAI is told to look at labelled namespaces only.

    Without PodGroup no pod is scheduled, and nothing says so.
    """
    pod = manifest.pod
    if not setting.opt_in or pod is None or pod.scheduler != setting.line.scheduler_name:
        return
    where = str(manifest.meta.get("namespace") or "default")
    labels = setting.namespaces.get(where)
    lacking = " ".join(f"{key}={value}" for key, value in setting.opt_in.items() if (labels or {}).get(key) != value)
    if not lacking:
        return
    at = ("metadata", "namespace") if manifest.meta.get("namespace") else ("metadata",)
    then = "no PodGroup, no fraction is set up, the pod stays Pending without an event"
    fix = f"kubectl label namespace {where} {lacking}"
    if labels is None:
        what = f"KAI on the host looks at namespace {where} only if that is labelled {lacking}; if not: {then}"
        yield found(at, what, fix, "warning")
    else:
        yield found(at, f"namespace {where} is not labelled {lacking}, so KAI on the host leaves it alone: {then}", fix)
