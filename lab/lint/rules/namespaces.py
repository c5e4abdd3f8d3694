"""Rules about namespaces that the host's KAI watches, beside tenants with their own KAI."""

from __future__ import annotations

from collections.abc import Iterator

from lab.findings import Finding
from lab.lint.model import LintContext, Manifest, finding, rule


@rule(
    "namespace-opt-in",
    "KAI global.namespaceLabelSelector: the webhooks' namespaceSelector, and --namespace-label-selector of the "
    "pod-grouper",
)
def opt_in(manifest: Manifest, ctx: LintContext) -> Iterator[Finding]:
    """A workload in a namespace that the host's KAI ignores.

    Beside a tenant with its own KAI, the host's KAI watches labelled namespaces only. Elsewhere pods get no PodGroup
    and are never scheduled, without an event.
    """
    pod = manifest.pod
    if not ctx.opt_in or pod is None or pod.scheduler != ctx.line.scheduler_name:
        return
    namespace = str(manifest.meta.get("namespace") or "default")
    labels = ctx.namespaces.get(namespace)
    missing = " ".join(f"{key}={value}" for key, value in ctx.opt_in.items() if (labels or {}).get(key) != value)
    if not missing:
        return
    at = ("metadata", "namespace") if manifest.meta.get("namespace") else ("metadata",)
    effect = "no PodGroup, no fraction is set up, the pod stays Pending without an event"
    what = f"namespace {namespace} is not labelled {missing}, so KAI on the host ignores it: {effect}"
    if labels is None:
        what = f"KAI on the host watches namespace {namespace} only if it is labelled {missing}; otherwise: {effect}"
    yield finding(at, what, f"kubectl label namespace {namespace} {missing}", "warning" if labels is None else "error")
