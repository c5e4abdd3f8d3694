"""Tenants with their own KAI: each version does inside what it promises, and leaves other tenants' resources alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lab.config.node_assignment import tenant_nodes
from lab.gpu.pools import short_name
from lab.kai import VersionLine, line_of, lines
from lab.kai.names import KAI_SCHEDULER
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.kai import PodGroupView, QueueView
from lab.objects.views import EventView, NodeView, PodView
from lab.pytest_plugin.fixtures import TenantFixture, matching
from lab.session.lab import Lab
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import cpu_pod, fraction_pod, gpu_pod

from .noisy_neighbour.own_kai import OwnKai, with_class
from .scheduling_decisions import WAIT, bound, refusal

OWN = "own-kai"
SHARES = {"half": 0.5, "quarter": 0.25}
Uuids = Callable[[str], frozenset[str] | None]
Json = dict[str, Any]

pytestmark = [
    pytest.mark.tenants(OWN),
    pytest.mark.xdist_group("gpus"),
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("gpu_lock"),
]


@pytest.fixture
def own(lab: Lab, tenant: TenantFixture) -> OwnKai:
    """The tenant's KAI."""
    return OwnKai(lab, tenant.spec)


@pytest.fixture
def idle(own: OwnKai) -> None:
    """Wait until no GPU of the tenant is in use."""
    wait_until_idle(own)


@pytest.fixture
def line(own: OwnKai) -> VersionLine:
    """The version line of that KAI."""
    return line_of(own.kai_version)


def wait_until_idle(own: OwnKai) -> None:
    """Wait until earlier tests have released the tenant's GPUs; skip if other workloads use them.

    Raises:
        WaitTimeout: a GPU stays reserved.
    """
    known = {obj["metadata"]["name"] for obj in own.cluster.list("Namespace", labels=OWNER_LABEL)}
    known.add(line_of(own.kai_version).reservation_namespace)
    pods = [PodView.of(obj) for obj in own.cluster.list("Pod")]
    busy = [pod for pod in pods if pod.namespace not in known and pod.node and not pod.ended]
    if names := sorted(f"{pod.namespace}/{pod.name}" for pod in busy if pod.requests.gpus or pod.gpu_groups):
        pytest.skip(f"GPUs of tenant {own.tenant.name} are in use: {', '.join(names)}")
    reserved(own, lambda pods: not pods, "no GPU of the tenant is reserved")


def gpus_of(own: OwnKai, least: int) -> int:
    """Return the number of GPUs on the tenant's nodes; skip if a test needs more."""
    there = sum(NodeView.of(obj).gpus for obj in own.cluster.list("Node"))
    if there < least:
        pytest.skip(f"needs {least} GPUs, tenant {own.tenant.name} has {there}")
    return there


@pytest.fixture
def sharing(own: OwnKai, idle: None, workloads: WorkloadNamespace) -> dict[str, PodView]:
    """Create a half and a quarter of one GPU; return the Ready pods by name, as the tenant sees them."""
    gpus_of(own, 1)
    first, second = (part(own, name, share) for name, share in SHARES.items())
    workloads.submit(first)
    workloads.inside(bound, "half", timeout=WAIT, what="bound")
    workloads.submit(second)
    workloads.running(*SHARES, timeout=WAIT)
    return seen(workloads, *SHARES)


def part(own: OwnKai, name: str, share: float) -> Json:
    """Return a fraction pod in the tenant's queue."""
    return with_class(fraction_pod(name, fraction=share, queue=own.queue), own.kai_version)


def seen(workloads: WorkloadNamespace, *names: str) -> dict[str, PodView]:
    """Wait until KAI's annotations are on pods; return them by name, as the tenant sees them."""
    pods = workloads.inside(
        lambda pod: pod.ready and bool(pod.pod_group and pod.received_resource_type),
        *names,
        timeout=WAIT,
        what="Ready, with KAI's annotations,",
    )
    return dict(zip(names, pods, strict=True))


def on_host(workloads: WorkloadNamespace, *names: str) -> dict[str, PodView]:
    """Return the synced pods on the host, by their names in the tenant."""
    return dict(zip(names, workloads.running(*names, timeout=WAIT), strict=True))


def reserved(own: OwnKai, until: Callable[[list[PodView]], bool], what: str) -> list[PodView]:
    """Wait for a condition of the tenant's own reservation pods. Raises WaitTimeout."""
    pods = own.cluster.wait(
        "Pod",
        lambda pods: until([PodView.of(pod) for pod in pods]),
        namespace=line_of(own.kai_version).reservation_namespace,
        timeout=WAIT,
        what=what,
    )
    return [PodView.of(pod) for pod in pods]


def scheduled_by(cluster: Cluster, pod: PodView) -> str:
    """Return the scheduler that the tenant's Scheduled event names. Raises WaitTimeout."""
    events = cluster.wait(
        "Event",
        lambda events: any(EventView.of(event).reason == "Scheduled" for event in events),
        namespace=pod.namespace,
        fields=f"involvedObject.uid={pod.uid}",
        timeout=WAIT,
        what=f"event Scheduled of pod {pod.namespace}/{pod.name}",
    )
    return next(view.reporter for view in map(EventView.of, events) if view.reason == "Scheduled")


def own_nodes(own: OwnKai) -> set[str]:
    """Names of the tenant's dedicated nodes on the host."""
    short = set(tenant_nodes(own.lab.spec).get(own.tenant.name, ()))
    nodes = [NodeView.of(obj).name for obj in own.lab.cluster.list("Node")]
    return {name for name in nodes if short_name(own.lab.spec.name, name) in short}


def of_own_nodes(own: OwnKai, gpu_uuids: Uuids) -> set[str] | None:
    """UUIDs of the tenant's GPUs; None if only the nodes know them."""
    known = [gpu_uuids(node) for node in own_nodes(own)]
    return None if None in known else {uuid for uuids in known for uuid in uuids or ()}


def test_all_kinds_of_pods_run_at_the_same_time(
    own: OwnKai, sharing: Mapping[str, PodView], workloads: WorkloadNamespace, gpu_uuids: Uuids
) -> None:
    gpus_of(own, 2)
    workloads.submit(cpu_pod("cpu", queue=own.queue), gpu_pod("whole", queue=own.queue))
    names = ("cpu", "whole", *SHARES)
    pods, host = seen(workloads, *names), on_host(workloads, *names)
    kinds = {name: pod.received_resource_type for name, pod in pods.items()}
    assert kinds == {"cpu": "Regular", "whole": "Regular", **dict.fromkeys(SHARES, "Fraction")}
    for name, pod in pods.items():
        assert pod.scheduler_name == KAI_SCHEDULER
        assert scheduled_by(own.cluster, pod) == KAI_SCHEDULER
        assert pod.node == host[name].node
        assert pod.node in own_nodes(own)
        group = own.cluster.get("PodGroup", pod.pod_group, pod.namespace)
        assert group is not None, f"{name} names PodGroup {pod.pod_group}, which the tenant does not have"
        assert PodGroupView.of(group).queue == own.queue
    (whole,) = workloads.look(host["whole"]).visible
    known = of_own_nodes(own, gpu_uuids)
    assert known is None or whole in known
    (held,) = reserved(own, lambda pods: [pod.ready for pod in pods] == [True], "one GPU is reserved")
    assert whole != held.reserved_gpu


def test_fractions_share_a_gpu_that_one_reservation_pod_holds(
    own: OwnKai, line: VersionLine, sharing: Mapping[str, PodView], workloads: WorkloadNamespace, gpu_uuids: Uuids
) -> None:
    (group,) = {group for pod in sharing.values() for group in pod.gpu_groups}
    assert all(pod.labels.get(line.keys.gpu_group) == group for pod in sharing.values())
    assert all(pod.annotations[line.keys.received_type] == "Fraction" for pod in sharing.values())
    (held,) = reserved(own, lambda pods: any(pod.reserved_gpu for pod in pods), "the reservation pod knows its GPU")
    assert (held.gpu_groups, held.phase) == ((group,), "Running")
    assert {held.node} == {pod.node for pod in sharing.values()}
    start = f"gpu-reservation-{held.node}-" if line.reservation_name == "node" else "gpu-reservation-"
    assert held.name.startswith(start)
    known = of_own_nodes(own, gpu_uuids)
    assert known is None or held.reserved_gpu in known
    for name, pod in on_host(workloads, *SHARES).items():
        within: Inside = workloads.look(pod)
        assert within.visible == (held.reserved_gpu,)
        assert len(within.gpus) == 1
        assert float(within.env["GPU_PORTION"]) == pytest.approx(SHARES[name])


def test_fraction_that_does_not_fit_waits_and_says_so(own: OwnKai, idle: None, workloads: WorkloadNamespace) -> None:
    """Each of the tenant's GPUs is nearly full; the last pod fits on none."""
    for number in range(gpus_of(own, 1)):
        # One after the other: 0.7 and 0.9 can lose a reservation while they bind two (early-reservation-removal).
        workloads.submit(part(own, f"most-{number}", 0.75))
        workloads.running(f"most-{number}", timeout=WAIT)
    workloads.submit(part(own, "over", 0.5))
    (over,) = workloads.inside(
        lambda pod: bool(refusal(pod)) or bound(pod), "over", timeout=WAIT, what="refused or placed"
    )
    assert not bound(over)
    events = own.cluster.wait(
        "Event",
        lambda events: any(EventView.of(event).reason == "Unschedulable" for event in events),
        namespace=workloads.namespace,
        fields=f"involvedObject.uid={over.uid}",
        timeout=WAIT,
        what="KAI reports why the pod is pending",
    )
    assert {view.reporter for view in map(EventView.of, events) if view.reason == "Unschedulable"} == {KAI_SCHEDULER}


def test_reservation_pod_goes_with_its_last_user(
    own: OwnKai, sharing: Mapping[str, PodView], workloads: WorkloadNamespace
) -> None:
    (held,) = reserved(own, lambda pods: len(pods) == 1, "one GPU is reserved")
    workloads.remove("quarter", timeout=WAIT)
    (still,) = workloads.inside(lambda pod: pod.ready, "half", timeout=WAIT, what="Ready")
    assert still.uid == sharing["half"].uid
    assert [pod.name for pod in reserved(own, bool, "a GPU is reserved")] == [held.name]
    workloads.remove("half", timeout=WAIT)
    reserved(own, lambda pods: not pods, "the reservation pod is gone with the last user")


def test_pod_of_an_unknown_queue_waits(own: OwnKai, line: VersionLine, workloads: WorkloadNamespace) -> None:
    """If this version writes no message, a later pod that runs proves that this one was passed over."""
    workloads.submit(cpu_pod("lost", queue="no-such-queue"))
    if line.unknown_queue_event:
        own.cluster.wait(
            "PodGroup",
            lambda groups: any(
                refusal.reason == "QueueDoesNotExist" for group in groups for refusal in PodGroupView.of(group).refusals
            ),
            namespace=workloads.namespace,
            timeout=WAIT,
            what="KAI reports why it does not place the pod",
        )
    workloads.submit(cpu_pod("later", queue=own.queue))
    workloads.running("later", timeout=WAIT)
    (lost,) = workloads.inside(lambda pod: True, "lost", what="there")
    assert (lost.node, lost.phase) == ("", "Pending")


def test_tenant_sees_only_what_is_its_own(own: OwnKai, workloads: WorkloadNamespace) -> None:
    workloads.submit(cpu_pod("mine", queue=own.queue))
    mine = seen(workloads, "mine")["mine"]
    assert {NodeView.of(obj).name for obj in own.cluster.list("Node")} == own_nodes(own)
    queues = {QueueView.of(obj).name for obj in own.cluster.list("Queue")}
    wanted = {queue.name for queue in own.spec.queues}
    # KAI's own queues stay when another version is installed
    assert wanted <= queues <= wanted.union(*(line.default_queues for line in lines().values()))
    groups = [PodGroupView.of(obj) for obj in own.cluster.list("PodGroup")]
    spaces = {obj["metadata"]["name"] for obj in own.cluster.list("Namespace")}
    assert mine.pod_group in {group.name for group in groups}
    assert {group.namespace for group in groups} <= spaces
    for other in others(own):
        uids = {obj["metadata"]["uid"] for obj in other.list("PodGroup")}
        assert uids.isdisjoint(group.uid for group in groups)


def others(own: OwnKai) -> list[Cluster]:
    """The API clients of the host and of the other tenants."""
    names = [tenant.name for tenant in own.lab.tenants if tenant.name != own.tenant.name]
    return [own.lab.cluster, *(own.lab.tenant(name) for name in names)]


@pytest.mark.tenants(OWN, min=2)
@pytest.mark.devices
@pytest.mark.gpus
def test_all_tenants_at_once_share_no_gpu(
    lab: Lab, new_workloads: Callable[[str], WorkloadNamespace], gpu_uuids: Uuids, free_gpus: None
) -> None:
    """KAI of several versions and, in some tenants, the default scheduler: each allocates its own GPUs."""
    places: dict[str, tuple[WorkloadNamespace, tuple[str, ...]]] = {}
    others: dict[str, list[Json]] = {}
    for spec in matching(lab.tenants, [OWN, "default"]):
        workloads = new_workloads(spec.name)
        if spec.mode == OWN:
            own = OwnKai(lab, spec)
            gpus_of(own, 2)
            wait_until_idle(own)
            workloads.submit(part(own, "half", 0.5))
            places[spec.name] = (workloads, ("half", "whole"))
            others[spec.name] = [gpu_pod("whole", queue=own.queue), cpu_pod("cpu", queue=own.queue)]
        else:
            workloads.submit(gpu_pod("whole", scheduler=None))
            places[spec.name] = (workloads, ("whole",))
    for name, pods in others.items():  # early-reservation-removal: another bind would deallocate the half's GPU
        workloads, _ = places[name]
        workloads.inside(lambda pod: pod.ready, "half", timeout=WAIT, what="Ready")
        workloads.submit(*pods)
    running = {name: workloads.running(*names, timeout=WAIT) for name, (workloads, names) in places.items()}
    used: dict[str, str] = {}
    for name, (workloads, _) in places.items():
        for pod in running[name]:
            (uuid,) = workloads.look(pod).visible
            assert uuid not in used, f"tenants {used[uuid]} and {name} both have {uuid}"
            known = gpu_uuids(pod.node)
            assert known is None or uuid in known
            used[uuid] = name
    still = {name: workloads.running(*names, timeout=WAIT) for name, (workloads, names) in places.items()}
    uids, before = ({n: [p.uid for p in pods] for n, pods in found.items()} for found in (still, running))
    assert uids == before
