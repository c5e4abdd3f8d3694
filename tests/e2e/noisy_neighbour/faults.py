"""What can go wrong in a tenant with a KAI of its own; each is lit here, burns while the caller works, and is put out.

Each fire gives a function that stokes it: the caller calls it again and again while it burns.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
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
from tests.e2e.kai_components import deployments, stopped, wait_until_up
from tests.e2e.scheduling_decisions import WAIT, refusal

from .own_kai import OwnKai

NO_SUCH_FLAG = "--kailab-no-such-flag"
NOBODY = {"app": "kailab-nobody"}
NEVER = 1000
"""GPUs that no node has."""

AT_ONCE = 16
"""Connections that create pods side by side."""

CRD = "podgroups.scheduling.run.ai"

Json = dict[str, Any]
Stoke = Callable[[], None]


def _nothing() -> None:
    """Some fires burn by themselves."""


@contextmanager
def crash_looping(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Stoke]:
    """KAI's scheduler ends at each start, because of an argument that it does not know."""
    with stopped(own):  # the operator, where there is one: it would put the Deployment back
        name = deployments(own)["scheduler"]
        spec = (own.cluster.get("Deployment", name, NAMESPACE) or {})["spec"]
        containers = spec["template"]["spec"]["containers"]
        broken = [{**containers[0], "args": [*containers[0].get("args", []), NO_SUCH_FLAG]}, *containers[1:]]
        try:
            # Recreate: otherwise the old pod stays until the new one is ready, which never happens.
            _change(own, name, {"type": "Recreate", "rollingUpdate": None}, broken)
            own.cluster.wait(
                "Pod",
                lambda pods: bool(pods) and all(_crashed(pod) for pod in pods),
                namespace=NAMESPACE,
                labels=f"app={name}",
                timeout=WAIT,
                what="KAI's scheduler crashes",
            )
            yield _nothing
        finally:
            _change(own, name, spec["strategy"], containers)


def _change(own: OwnKai, deployment: str, strategy: Json, containers: list[Json]) -> None:
    spec = {"strategy": strategy, "template": {"spec": {"containers": containers}}}
    own.cluster.patch("Deployment", deployment, {"spec": spec}, NAMESPACE)


def _crashed(pod: Json) -> bool:
    view = PodView.of(pod)
    return not view.ready and (view.restarts > 0 or "CrashLoopBackOff" in view.waiting_reasons)


@contextmanager
def webhook_failing(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Stoke]:
    """KAI's webhooks for pods must be asked (failurePolicy Fail) and nobody answers: their Service selects no pod."""
    line = line_of(own.kai_version)
    hooks = tuple(zip(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), line.webhooks, strict=False))
    with stopped(own):
        before = {key: (own.cluster.get(*key) or {})["webhooks"] for key in hooks}
        service = before[hooks[0]][0]["clientConfig"]["service"]
        target = ("Service", service["name"])
        selector = (own.cluster.get(*target, service["namespace"]) or {})["spec"]["selector"]
        try:
            for key, webhooks in before.items():
                own.cluster.patch(*key, {"webhooks": [{**hook, "failurePolicy": "Fail"} for hook in webhooks]})
            own.cluster.patch(*target, {"spec": {"selector": NOBODY}}, service["namespace"])
            # connections that are open would lead to the old pod for as long as it lives
            own.cluster.delete_all("Pod", NAMESPACE, labels=f"app={line.admission}", grace=0)
            _until_silent(own)
            yield _nothing
        finally:
            without = dict.fromkeys(NOBODY.keys() - selector.keys())
            own.cluster.patch(*target, {"spec": {"selector": {**without, **selector}}}, service["namespace"])
            for key, webhooks in before.items():
                own.cluster.patch(*key, {"webhooks": webhooks})


def _until_silent(own: OwnKai) -> None:
    """Wait until pods are no longer judged: that is no event."""

    def answer() -> bool:
        return webhooks_answer(own.cluster, own.spec.name, line_of(own.kai_version), kai_values(own.spec))

    assert not own.cluster.poll(answer, until=operator.not_, timeout=WAIT, interval=0.5), "the webhooks still answer"


@contextmanager
def queues_deleted(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Stoke]:
    """The tenant has no queue any more."""
    queues = {queue["metadata"]["name"]: queue for queue in own.cluster.list(QUEUE)}
    try:
        delete_queues(own.cluster, queues, WAIT)
        yield _nothing
    finally:
        ordered = sorted(queues.values(), key=lambda queue: _depth(queue, queues))
        own.cluster.apply([_again(queue) for queue in ordered], retry=WAIT)


def _depth(queue: Json, queues: Mapping[str, Json]) -> int:
    above = queues.get(queue["spec"].get("parentQueue", ""))
    return 0 if above is None else 1 + _depth(above, queues)


def _again(doc: Json) -> Json:
    """The object as it can be created once more."""
    meta = {key: doc["metadata"][key] for key in ("name", "labels", "annotations") if key in doc["metadata"]}
    return {"apiVersion": doc["apiVersion"], "kind": doc["kind"], "metadata": meta, "spec": doc["spec"]}


@contextmanager
def api_killed(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Stoke]:
    """The tenant's control-plane pod is deleted on the host, and each that follows it."""
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
def many_pending(own: OwnKai, workloads: WorkloadNamespace, *, count: int) -> Iterator[Stoke]:
    """So many pods that no node can take."""
    pods = [gpu_pod(f"pending-{number:03}", gpus=NEVER, queue=own.queue) for number in range(count)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(workloads.submit, pods))
    try:
        workloads.cluster.wait(
            "Pod",
            lambda pods: len(pods) >= count and any(refusal(PodView.of(pod)) for pod in pods),
            namespace=workloads.namespace,
            timeout=WAIT,
            what=f"{count} pods are pending, and KAI has begun to refuse them",
        )
        yield _nothing
    finally:
        workloads.remove(timeout=WAIT)


@contextmanager
def crd_deleted(own: OwnKai, workloads: WorkloadNamespace) -> Iterator[Stoke]:
    """The kind PodGroup is gone, and every PodGroup with it."""
    kind = "CustomResourceDefinition"
    crd = own.cluster.get(kind, CRD) or {}
    try:
        own.cluster.delete(kind, CRD, wait=WAIT)
        yield _nothing
    finally:
        own.cluster.apply([_again(crd)], retry=WAIT)
        own.cluster.wait_ready(kind, CRD, timeout=WAIT)
        # their caches gave the kind up; nothing tells them that it is there again
        own.cluster.delete_all("Pod", NAMESPACE, grace=0)
        wait_until_up(own)


@dataclass(frozen=True)
class Fire:
    """One way in which a tenant burns."""

    id: str
    what: str
    light: Callable[[OwnKai, WorkloadNamespace], AbstractContextManager[Stoke]]


def fires(pending: int) -> tuple[Fire, ...]:
    """All fires after which the tenant is there again.

    Args:
        pending: how many pods wait in ``pending-pods``.
    """
    return (
        Fire("kai-crash-looping", "its KAI scheduler crashes at each start", crash_looping),
        Fire("webhook-failing", "its KAI webhooks must be asked and do not answer", webhook_failing),
        Fire("queues-deleted", "its queues are deleted", queues_deleted),
        Fire("pending-pods", f"{pending} pods wait in it", functools.partial(many_pending, count=pending)),
        Fire("crd-deleted", f"its CRD {CRD} is deleted", crd_deleted),
        Fire("api-server-killed", "its control-plane pod is killed again and again", api_killed),
    )
