"""Rules about the time between the scheduler's decision and the bind."""

from __future__ import annotations

from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.snapshot.kai_installation import BINDER


@rule("bind.in-progress", UNBOUND, "BindRequest, pkg/apis/scheduling/v1alpha2/bindrequest_types.go", general=True)
def in_progress(ctx: PodContext) -> Finding | None:
    """The bind is in progress."""
    binder = ctx.kai.component(BINDER) if ctx.kai else None
    request = ctx.bind_request
    if request is None or binder is None or not binder.up or request.phase in ("Failed", "Succeeded"):
        return None
    shares = f", GPU group {', '.join(request.gpu_groups)}" if request.gpu_groups else ""
    return Finding(
        f"KAI chose node {request.node} for {ctx.title}, and its binder is binding it",
        "wait some seconds; a fraction on a new GPU waits up to 40 s for its reservation pod",
        (f"BindRequest {request.name}: {request.phase or 'new'}, {request.resource_type}{shares}",),
        Certainty.POSSIBLE,
    )
