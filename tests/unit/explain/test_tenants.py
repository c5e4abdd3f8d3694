"""Pods of vClusters, seen from both sides."""

from __future__ import annotations

from lab.explain import LabSnapshot, TenantSnapshot, explain
from tests.support.explain_world import (
    GROUP,
    SPACE,
    Scene,
    deployment,
    explain_in_tenant,
    group,
    ids,
    meta,
    node,
    pod,
    queue,
    stamp,
    synced,
)


def inside(kai: str = "", **more: object) -> tuple[Scene, dict[str, object]]:
    """A tenant with one pod."""
    scene = Scene(kai)
    made = pod(**{"group": None, **more})
    return scene.add(made), made


def control_plane(ready: bool = True) -> dict[str, object]:
    """The tenant's control plane on the host."""
    labels = {"app": "vcluster", "release": "blue"}
    more = {"ready": True} if ready else {"waiting": "CrashLoopBackOff"}
    return pod("blue-0", "vcluster-blue", group=None, queue=None, scheduler="", node="worker-1", labels=labels, **more)


def test_queue_that_exists_only_inside() -> None:
    tenant, made = inside()
    tenant.add(queue("mine"))
    host = Scene().add(synced("p-x", made, "blue", queue="mine", group=None, ago=1))
    explanation = explain_in_tenant(host, tenant)
    assert ids(explanation) == ["tenant.queue-only-inside"]
    assert explanation.findings[0].side == "host"
    assert explanation.facts is not None
    assert explanation.facts["on the host"] == "vcluster-blue/p-x"


def test_queue_that_exists_only_on_the_host() -> None:
    tenant, _ = inside("0.16.8", queue="shared", ago=1)
    explanation = explain_in_tenant(Scene().add(queue("shared", "default"), control_plane()), tenant, own=True)
    assert ids(explanation) == ["tenant.queue-only-on-host"]
    assert explanation.findings[0].side == "tenant blue"


def test_queue_that_exists_nowhere() -> None:
    tenant, made = inside()
    host = Scene().add(synced("p-x", made, "blue", queue="nowhere", group=None, ago=1))
    assert ids(explain_in_tenant(host, tenant)) == ["queue.unknown"]


def test_host_admission_refuses() -> None:
    tenant, made = inside(fraction=0.5)
    says = 'Error syncing to host cluster: create object: admission webhook "v" denied the request: '
    says += "gpu-fraction annotation value must be a positive number smaller than 1.0"
    tenant.event(made, "SyncError", says, by="pod-syncer")
    explanation = explain_in_tenant(Scene().add(control_plane()), tenant)
    assert ids(explanation) == ["admission.fraction-value"]
    assert explanation.side == "tenant blue"


def test_host_refuses_in_words_that_no_rule_knows() -> None:
    tenant, made = inside()
    tenant.event(made, "SyncError", "Error syncing to host cluster: create object: http2: client connection lost")
    assert ids(explain_in_tenant(Scene().add(control_plane()), tenant)) == ["tenant.sync-error"]


def test_class_that_is_not_lent() -> None:
    tenant, made = inside()
    says = 'did not sync pod "p" to host because the runtime class "nvidia" in the host does not match the selector'
    tenant.event(made, "SyncWarning", says)
    explanation = explain_in_tenant(Scene().add(control_plane()), tenant)
    assert ids(explanation) == ["tenant.class-not-synced"]
    assert "sync.fromHost.runtimeClasses" in explanation.findings[0].next


def test_pod_that_the_syncer_forgot() -> None:
    tenant, _ = inside(ago=60)
    assert ids(explain_in_tenant(Scene().add(control_plane()), tenant)) == ["tenant.not-synced"]
    young, _ = inside(ago=2)
    assert ids(explain_in_tenant(Scene().add(control_plane()), young)) == []


def test_tenant_with_its_own_scheduler_waits_inside() -> None:
    tenant, _ = inside("0.16.8", queue="default", group="pg-p")
    tenant.add(group("pg-p", queue="default"))
    assert ids(explain_in_tenant(Scene().add(control_plane()), tenant, own=True)) == ["queue.not-leaf"]


def test_node_that_the_tenant_does_not_know() -> None:
    tenant, made = inside()
    tenant.remove("Node", "worker-1")
    host = Scene().add(synced("p-x", made, "blue", node="worker-1", ready=True))
    assert ids(explain_in_tenant(host, tenant)) == ["tenant.node-not-synced"]


def test_priority_class_that_got_lost() -> None:
    tenant, made = inside(spec={"priorityClassName": "build"})
    host = Scene().add(
        synced("p-x", made, "blue", ago=1), {**group("pg-p-x"), "metadata": meta("pg-p-x", "vcluster-blue")}
    )
    explanation = explain_in_tenant(host, tenant)
    assert ids(explanation) == ["tenant.class-blanked"]
    assert explanation.findings[0].evidence == ("PodGroup's class: train",)


def test_two_kais() -> None:
    tenant, made = inside("0.16.8", fraction=0.5, node="worker-1", waiting="CreateContainerConfigError")
    on_host = synced(
        "p-x",
        made,
        "blue",
        node="worker-1",
        fraction=0.5,
        group="pg-x",
        waiting="CreateContainerConfigError",
        message='configmap "p-abc-shared-gpu-evar" not found',
    )
    host = Scene().add(on_host)
    host.add({**group("pg-x"), "metadata": meta("pg-x", "vcluster-blue")})
    explanation = explain_in_tenant(host, tenant, own=True)
    assert ids(explanation)[0] == "tenant.two-kais"
    assert "shared.configmaps" not in ids(explanation)


OPT_IN = {"kailab.dev/kai": "host"}


def opted(*args: str, webhook: bool = False) -> Scene:
    """KAI on the host that looks at labelled namespaces only, with a pod for it in another one."""
    scene = Scene().add(deployment("pod-grouper", "kai-scheduler", "r/podgrouper:v0.16.8", args=args))
    hooks = [{"namespaceSelector": {"matchLabels": OPT_IN}}] if webhook else []
    scene.add({"kind": "MutatingWebhookConfiguration", "metadata": meta("mutating-kai-admission"), "webhooks": hooks})
    return scene.add(pod(group=None, ago=2))


def test_namespace_that_does_not_belong_to_the_hosts_kai() -> None:
    scene = opted("--namespace-label-selector", "kailab.dev/kai=host")
    explanation = scene.explain()
    assert ids(explanation)[0] == "tenant.not-opted-in"
    assert explanation.findings[0].next == "kubectl label namespace team kailab.dev/kai=host"
    assert explanation.findings[0].evidence == ("pod-grouper: --namespace-label-selector kailab.dev/kai=host",)
    scene.add({"kind": "Namespace", "metadata": meta(SPACE, labels=OPT_IN)})
    assert "tenant.not-opted-in" not in ids(scene.explain())


def test_webhooks_that_leave_the_namespace_out() -> None:
    """A pod that brought its PodGroup along is scheduled all the same, and not prepared for its fraction."""
    explanation = opted(webhook=True).add(pod(group="own", fraction=0.5), group("own")).explain()
    assert "tenant.not-opted-in" in ids(explanation)
    assert "webhook configuration mutating-kai-admission" in explanation.findings[0].evidence[0]


def test_kai_that_looks_at_all_namespaces_or_at_others_leaves_nobody_out_for_tenants() -> None:
    assert "tenant.not-opted-in" not in ids(opted().explain())
    assert "tenant.not-opted-in" not in ids(opted("--namespace-label-selector", "kai=on").explain())


def test_pods_of_tenants_need_no_opting_in() -> None:
    host = opted("--namespace-label-selector", "kailab.dev/kai=host", webhook=True)
    tenant, made = inside("0.16.8", queue="test", ago=2)
    assert "tenant.not-opted-in" not in ids(explain_in_tenant(host, tenant, own=True))
    host.add(synced("p-x", made, "blue", node="worker-1", ready=True))
    assert "tenant.not-opted-in" not in ids(explain_in_tenant(host, tenant, own=True))


def test_host_pod_that_is_being_deleted() -> None:
    tenant, made = inside(node="worker-1", ready=True)
    on_host = synced("p-x", made, "blue", node="worker-1", ready=True, meta={"deletionTimestamp": stamp(-20)})
    assert "tenant.host-deleting" in ids(explain_in_tenant(Scene().add(on_host), tenant))


def test_tenant_has_not_heard_yet() -> None:
    tenant, made = inside(node="worker-1", waiting="ContainerCreating")
    host = Scene().add(synced("p-x", made, "blue", node="worker-1", ready=True))
    assert "tenant.status-behind" in ids(explain_in_tenant(host, tenant))


def test_healthy_pod_of_a_tenant_gives_no_alarm() -> None:
    from tests.support.explain_world import reservation

    shares = {"runai-gpu-group": GROUP}
    tenant, made = inside(node="worker-1", ready=True, fraction=0.5, labels=shares, group="pg-p-x")
    host = Scene().add(
        synced("p-x", made, "blue", node="worker-1", ready=True, fraction=0.5, labels=shares), reservation()
    )
    explanation = explain_in_tenant(host, tenant)
    assert (ids(explanation), explanation.settled) == ([], True)


def test_synced_pod_asked_for_on_the_host_knows_its_tenant() -> None:
    tenant, made = inside()
    tenant.add(queue("mine"))
    host = Scene().add(synced("p-x", made, "blue", queue="mine", group=None, ago=1), node("worker-3"))
    worlds = LabSnapshot(host.world, (TenantSnapshot("blue", tenant.world, own_scheduler=False),))
    (case,) = worlds.cases("p-x", "vcluster-blue")
    assert case.counterpart is not None
    assert (case.counterpart.side, ids(explain(case))) == ("tenant blue", ["tenant.queue-only-inside"])
    assert SPACE == "team"
