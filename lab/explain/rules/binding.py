"""Between the scheduler's choice and the bind."""

from __future__ import annotations

from lab.explain.installation import BINDER
from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding


@rule(
    "bind.given-up",
    "The binder has given up",
    UNBOUND,
    "pkg/binder/controllers/bindrequest_controller.go: backoffLimit",
)
def given_up(case: PodContext) -> Finding | None:
    """A BindRequest that failed as often as it may is not tried again before the scheduler makes another."""
    request = case.request
    if request is None or request.phase != "Failed" or request.backoff_limit is None:
        return None
    if request.failed_attempts < request.backoff_limit:
        return None
    return Finding(
        f"the binder tried {request.failed_attempts + 1} times to bind {case.title} to {request.node} and gave up",
        "cure the cause; the scheduler then makes a new BindRequest",
        (f"BindRequest {request.name}: {' '.join(request.reason.split())[:300]}",),
    )


@rule(
    "bind.in-progress",
    "The bind is under way",
    UNBOUND,
    "BindRequest, pkg/apis/scheduling/v1alpha2/bindrequest_types.go",
    general=True,
)
def in_progress(case: PodContext) -> Finding | None:
    """The scheduler has chosen, the binder works."""
    binder = case.kai.component(BINDER) if case.kai else None
    request = case.request
    if request is None or binder is None or not binder.up or request.phase in ("Failed", "Succeeded"):
        return None
    shares = f", GPU group {', '.join(request.gpu_groups)}" if request.gpu_groups else ""
    return Finding(
        f"KAI chose node {request.node} for {case.title}, and its binder is at work",
        "wait some seconds; a fraction on a new GPU waits up to 40 s for its reservation pod",
        (f"BindRequest {request.name}: {request.phase or 'new'}, {request.resource_type}{shares}",),
        Certainty.POSSIBLE,
    )
