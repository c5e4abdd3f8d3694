"""Inference servers that share a GPU, as in OpenNebula's guide to KAI: 0.7 and 0.2 of it serve; another 0.2 waits.

The lab file chooses the server on real GPUs (``inference.image``); otherwise it is the lab's stand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lab.config import QueueSpec
from lab.errors import ApiFailed
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.session.lab import Lab
from lab.workloads.controllers import APP_LABEL
from lab.workloads.inference import InferenceServer, inference, service
from lab.workloads.modifiers import brief, of_priority
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import fraction_pod, gpu_pod
from lab.workloads.probe import ProbeFacts, facts_when

from .checks import assert_scheduled_by_kai, department, gpu_group, on_one_node, reservations
from .scheduling_decisions import WAIT, bound, decided, refused, wait_for_all

# A real server takes minutes to start; the stand-in is done with all of it in one.
pytestmark = [pytest.mark.kai, pytest.mark.timeout(3600)]

SHARES = {"vllm-test-07": 0.7, "vllm-test-02": 0.2}
THIRD = "vllm-test-02-more"
PROMPT = "San Francisco is a"
PATIENCE = 60.0
"""Seconds until the API server reaches a Service whose pod has just become ready."""

ANSWER_SECONDS = 120.0

Sharing = dict[str, PodView]


@pytest.fixture
def server(lab: Lab) -> InferenceServer:
    """The containers of the Deployments."""
    return InferenceServer.of(lab.spec.inference, lab.gpu_mode)


@pytest.fixture
def serving(new_queues: Callable[..., dict[str, str]], leased_node: NodeView) -> str:
    """A queue with free quota: Deployments get no more than that."""
    return new_queues(department(leased_node), QueueSpec(name="serving", parent="department"))["serving"]


def one(workloads: WorkloadNamespace, app: str, until: Callable[[PodView], bool], what: str) -> PodView:
    """Wait for the one pod of a Deployment."""

    def holds(pods: Sequence[PodView]) -> bool:
        mine = [pod for pod in pods if pod.labels.get(APP_LABEL) == app]
        return len(mine) == 1 and until(mine[0])

    pods = wait_for_all(workloads, holds, f"the pod of {app} is {what}")
    return next(pod for pod in pods if pod.labels.get(APP_LABEL) == app)


def ready(workloads: WorkloadNamespace, server: InferenceServer, *names: str) -> list[PodView]:
    """Wait until Deployments serve."""
    workloads.host.wait_ready("Deployment", names, workloads.namespace, timeout=server.seconds)
    return [one(workloads, name, lambda pod: pod.ready, "ready") for name in names]


@pytest.fixture
def sharing(workloads: WorkloadNamespace, server: InferenceServer, serving: str) -> Sharing:
    """The two servers; the second is created when the first serves, so that its GPU is known to be shared."""
    for name, fraction in SHARES.items():
        workloads.submit(*inference(name, server, fraction=fraction, queue=serving))
        one(workloads, name, lambda pod: pod.ready and bool(pod.gpu_groups), "ready on a GPU")
    return dict(zip(SHARES, ready(workloads, server, *SHARES), strict=True))


@pytest.mark.quota
@on_one_node()
def test_two_servers_share_one_gpu_and_answer_and_a_third_does_not_fit_in(
    sharing: Sharing,
    workloads: WorkloadNamespace,
    cluster: Cluster,
    lab: Lab,
    server: InferenceServer,
    serving: str,
    leased_node: NodeView,
    probe: Callable[[PodView], Inside],
) -> None:
    (held,) = reservations(cluster, gpu_group(*sharing.values()))
    for name, pod in sharing.items():
        group = assert_scheduled_by_kai(workloads, pod, "Fraction")
        assert (group.queue, group.priority_class) == (serving, "inference")
        assert pod.node == held.node
        inside = probe(pod)
        assert inside.visible == (held.reserved_gpu,)
        assert float(inside.env["GPU_PORTION"]) == pytest.approx(SHARES[name])
        assert_answers(workloads, server, name, pod)
    if server.stand_in and lab.gpus_in_containers:  # another server does not tell what it sees
        for pod in sharing.values():
            assert_memory(workloads, pod, leased_node.gpu_memory or 0, simulated=lab.gpu_mode == "simulated")
    assert_third_waits_beside_full_gpus(workloads, server, serving, gpu_group(*sharing.values()), leased_node)
    if leased_node.gpus > 1:
        assert_served_by_another_gpu(workloads, cluster, server, held)


def assert_answers(workloads: WorkloadNamespace, server: InferenceServer, name: str, pod: PodView) -> None:
    """A server's Service completes a text as vLLM does, and refuses an unknown model."""
    asked = {"model": server.model, "prompt": PROMPT, "max_tokens": 7, "temperature": 0}
    front = service(workloads, name)
    answer = front.post("/v1/completions", asked, timeout=ANSWER_SECONDS, patience=PATIENCE)
    assert (answer["object"], answer["model"]) == ("text_completion", server.model)
    (choice,) = answer["choices"]
    usage = answer["usage"]
    assert choice["text"].strip()
    assert 0 < usage["completion_tokens"] <= 7
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    with pytest.raises(ApiFailed) as refusal:
        front.post("/v1/completions", {**asked, "model": "another"}, timeout=ANSWER_SECONDS)
    assert refusal.value.status == 404
    if server.stand_in:
        assert choice["text"] == PROMPT
        assert ProbeFacts.of(front.get("/facts")).hostname == pod.name


def assert_memory(workloads: WorkloadNamespace, pod: PodView, total: int, *, simulated: bool) -> None:
    """A server sees all of its GPU's memory, and the memory that both servers use."""
    used = sum(SHARES.values()) * total
    facts = facts_when(
        workloads,
        pod,
        # simulated: each server reports the memory of its share; on real GPUs the stand-in uses none
        lambda facts: not simulated or abs(facts.devices[0].used - used) <= len(SHARES),
        timeout=WAIT,
        what=f"the servers use {used:.0f} MiB of their GPU",
    )
    assert [device.memory for device in facts.devices] == [total]


def assert_third_waits_beside_full_gpus(
    workloads: WorkloadNamespace, server: InferenceServer, serving: str, shared: str, leased_node: NodeView
) -> None:
    """0.7 + 0.2 + 0.2 exceeds a GPU: if all others are in use the third waits, while a smaller pod fits."""
    # of the same priority class as the servers, which would otherwise evict them
    others = [f"other-{number}" for number in range(leased_node.gpus - 1)]
    workloads.submit(*(of_priority(brief(gpu_pod(name, queue=serving)), "inference") for name in others))
    workloads.on_host(bound, *others, timeout=WAIT, what="placed on the other GPUs")
    workloads.submit(*inference(THIRD, server, fraction=0.2, queue=serving))
    assert refused(one(workloads, THIRD, decided, "placed or refused"))
    workloads.submit(fraction_pod("small", fraction=0.05, queue=serving))
    (small,) = workloads.on_host(lambda pod: bool(pod.gpu_groups), "small", timeout=WAIT, what="on a GPU")
    assert gpu_group(small) == shared
    assert not bound(one(workloads, THIRD, lambda _: True, "there"))
    if others:
        workloads.remove(others[0], timeout=WAIT)
    else:
        workloads.cluster.delete("Deployment", "vllm-test-07", workloads.namespace)
    third = one(workloads, THIRD, lambda pod: bool(pod.gpu_groups), "on a GPU")
    assert (gpu_group(third) == shared) == (not others)


def assert_served_by_another_gpu(
    workloads: WorkloadNamespace, cluster: Cluster, server: InferenceServer, first: PodView
) -> None:
    """The third server gets another GPU and serves from there."""
    (third,) = ready(workloads, server, THIRD)
    (other,) = reservations(cluster, gpu_group(third))
    assert other.reserved_gpu != first.reserved_gpu
    assert workloads.look(third).visible == (other.reserved_gpu,)
    served = service(workloads, THIRD).get("/v1/models", timeout=ANSWER_SECONDS, patience=PATIENCE)["data"]
    assert server.model in [model["id"] for model in served]
