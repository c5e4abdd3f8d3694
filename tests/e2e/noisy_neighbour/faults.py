"""Faults of a tenant with its own KAI: context managers that inject a fault and remove it at their end.

Each one yields a function that intensifies the fault; the caller calls it repeatedly while the fault is active.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from lab.kai import line_of
from lab.objects.views import PodView
from lab.steps.kai.step import NAMESPACE
from lab.steps.kai.values import kai_values
from lab.steps.kai.webhooks import webhooks_answer
from lab.steps.queues import KIND as QUEUE
from lab.steps.queues import delete_queues
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import gpu_pod
from lab.workloads.temporary import absent, changed

from ..kai_components import deployments, stopped, wait_until_up
from ..scheduling_decisions import WAIT, refusal
from .own_kai import OwnKai

UNKNOWN_FLAG = "--kailab-no-such-flag"
NO_POD_LABELS = {"app": "kailab-nobody"}
TOO_MANY_GPUS = 1000
"""More GPUs than any node has."""

CONNECTIONS = 16
"""Connections that create pods in parallel."""

CRD = "podgroups.scheduling.run.ai"

Json = dict[str, Any]
Intensify = Callable[[], None]


def _no_op() -> None:
    """Intensify nothing: for faults that persist without further action."""


@contextmanager
def crash_looping(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Intensify]:
    """Make KAI's scheduler exit at each start, with an unknown command line flag."""
    with stopped(own):  # the operator, if this version has one: it would revert the Deployment
        name = deployments(own)["scheduler"]
        spec = (own.cluster.get("Deployment", name, NAMESPACE) or {})["spec"]
        containers = spec["template"]["spec"]["containers"]
        broken = [{**containers[0], "args": [*containers[0].get("args", []), UNKNOWN_FLAG]}, *containers[1:]]
        # Recreate: otherwise the old pod stays until the new one is ready, which never happens.
        strategy = {"type": "Recreate", "rollingUpdate": None}
        change = {"spec": {"strategy": strategy, "template": {"spec": {"containers": broken}}}}
        with changed(own.cluster, own.lab.spec.name, "Deployment", name, change, NAMESPACE):
            own.cluster.wait(
                "Pod",
                lambda pods: bool(pods) and all(_crashed(pod) for pod in pods),
                namespace=NAMESPACE,
                labels=f"app={name}",
                timeout=WAIT,
                what="KAI's scheduler crashes",
            )
            yield _no_op


def _crashed(pod: Json) -> bool:
    view = PodView.of(pod)
    return not view.ready and (view.restarts > 0 or "CrashLoopBackOff" in view.waiting_reasons)


@contextmanager
def webhook_failing(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Intensify]:
    """Make KAI's pod webhooks required (failurePolicy Fail) and unavailable: their Service selects no pod."""
    line = line_of(own.kai_version)
    hooks = tuple(zip(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), line.webhooks, strict=False))
    name = own.lab.spec.name
    with stopped(own), ExitStack() as stack:
        before = {key: (own.cluster.get(*key) or {})["webhooks"] for key in hooks}
        service = before[hooks[0]][0]["clientConfig"]["service"]
        for key, webhooks in before.items():
            required = {"webhooks": [{**hook, "failurePolicy": "Fail"} for hook in webhooks]}
            stack.enter_context(changed(own.cluster, name, *key, required))
        nobody = {"spec": {"selector": NO_POD_LABELS}}
        stack.enter_context(changed(own.cluster, name, "Service", service["name"], nobody, service["namespace"]))
        # connections that are open would lead to the old pod for as long as it lives
        own.cluster.delete_all("Pod", NAMESPACE, labels=f"app={line.admission}", grace=0)
        _wait_until_unavailable(own)
        yield _no_op


def _wait_until_unavailable(own: OwnKai) -> None:
    """Wait until the webhooks no longer answer; polls, since no watch event shows it."""

    def answer() -> bool:
        return webhooks_answer(own.cluster, own.spec.name, line_of(own.kai_version), kai_values(own.spec))

    assert not own.cluster.poll(answer, until=operator.not_, timeout=WAIT, interval=0.5), "the webhooks still answer"


@contextmanager
def queues_deleted(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Intensify]:
    """Delete all of the tenant's queues."""
    queues = {queue["metadata"]["name"]: queue for queue in own.cluster.list(QUEUE)}
    ordered = sorted(queues.values(), key=lambda queue: _depth(queue, queues))
    with absent(own.cluster, own.lab.spec.name, ordered, retry=WAIT):
        delete_queues(own.cluster, queues, WAIT)
        yield _no_op


def _depth(queue: Json, queues: Mapping[str, Json]) -> int:
    parent = queues.get(queue["spec"].get("parentQueue", ""))
    return 0 if parent is None else 1 + _depth(parent, queues)


@contextmanager
def api_killed(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Intensify]:
    """Delete the tenant's control-plane pod on the host, and each of its successors."""
    host, killed = own.lab.cluster, set[str]()

    def kill() -> None:
        def alive(pods: list[Json]) -> list[Json]:
            return [pod for pod in pods if pod["metadata"]["uid"] not in killed]

        pods = host.wait(
            "Pod",
            lambda pods: bool(alive(pods)),
            namespace=own.namespace,
            labels=own.control_plane,
            timeout=WAIT,
            what=f"tenant {own.tenant.name} has a control-plane pod to kill",
        )
        killed.update(pod["metadata"]["uid"] for pod in alive(pods))
        host.delete_all("Pod", own.namespace, labels=own.control_plane, grace=0)

    kill()
    yield kill


@contextmanager
def many_pending(own: OwnKai, workloads: WorkloadNamespace, *, count: int) -> Iterator[Intensify]:
    """Create ``count`` pods that fit on no node."""
    pods = [gpu_pod(f"pending-{number:03}", gpus=TOO_MANY_GPUS, queue=own.queue) for number in range(count)]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(workloads.submit, pods))
    try:
        workloads.cluster.wait(
            "Pod",
            lambda pods: len(pods) >= count and any(refusal(PodView.of(pod)) for pod in pods),
            namespace=workloads.namespace,
            timeout=WAIT,
            what=f"{count} pods are pending, and KAI has begun to refuse them",
        )
        yield _no_op
    finally:
        workloads.remove(timeout=WAIT)


@contextmanager
def crd_deleted(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Intensify]:
    """Delete the CRD of PodGroups, and with it every PodGroup."""
    kind = "CustomResourceDefinition"
    crd = own.cluster.get(kind, CRD) or {}
    try:
        with absent(own.cluster, own.lab.spec.name, [crd], retry=WAIT):
            own.cluster.delete(kind, CRD, wait=WAIT)
            yield _no_op
    finally:
        own.cluster.wait_ready(kind, CRD, timeout=WAIT)
        # KAI's informers stopped when the kind disappeared and do not start again: restart KAI's pods.
        own.cluster.delete_all("Pod", NAMESPACE, grace=0)
        wait_until_up(own)


@dataclass(frozen=True)
class Fault:
    """One fault of a tenant."""

    id: str
    description: str
    inject: Callable[[OwnKai, WorkloadNamespace], AbstractContextManager[Intensify]]


def repairable_faults(pending: int) -> tuple[Fault, ...]:
    """Return all faults that the tenant survives; ``pending`` is the number of pods of ``pending-pods``."""
    return (
        Fault("kai-crash-looping", "its KAI scheduler crashes at each start", crash_looping),
        Fault("webhook-failing", "its KAI webhooks are required and do not answer", webhook_failing),
        Fault("queues-deleted", "its queues are deleted", queues_deleted),
        Fault("pending-pods", f"{pending} pods are pending in it", functools.partial(many_pending, count=pending)),
        Fault("crd-deleted", f"its CRD {CRD} is deleted", crd_deleted),
        Fault("api-server-killed", "its control-plane pod is killed repeatedly", api_killed),
    )
