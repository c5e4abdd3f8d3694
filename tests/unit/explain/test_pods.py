"""Odd specs, failed pods, containers, nodes under pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.explain_world import GROUP, SPACE, Scene, ids, meta, node, pod, stamp


def test_scheduling_gates() -> None:
    scene = Scene().add(pod(spec={"schedulingGates": [{"name": "a.b/c"}]}, ago=1))
    assert ids(scene.explain())[0] == "spec.gates"


def test_kai_is_not_here() -> None:
    scene = Scene("").add(pod(group=None))
    explanation = scene.explain()
    assert ids(explanation) == ["spec.kai-not-here"]
    scene.absent.add("Deployment")
    assert ids(scene.explain()) == []


def test_scheduler_of_nobody() -> None:
    scene = Scene().add(pod(group=None, scheduler="kai-schedular"))
    explanation = scene.explain()
    assert ids(explanation) == ["spec.no-such-scheduler"]
    assert explanation.findings[0].next == "correct spec.schedulerName: kai-scheduler"


@pytest.mark.parametrize("sign", ["event", "lease", "argument"])
def test_scheduler_that_somebody_has_heard_of(sign: str) -> None:
    scene = Scene().add(pod(group=None, scheduler="volcano"))
    if sign == "event":
        scene.event(pod("other"), "Scheduled", "assigned", by="volcano")
    elif sign == "lease":
        scene.add({"kind": "Lease", "metadata": meta("volcano", "volcano-system")})
    else:
        runs = pod("volcano-0", "volcano-system", group=None, scheduler="")
        runs["spec"]["containers"][0]["args"] = ["--scheduler-name=volcano"]
        scene.add(runs)
    assert ids(scene.explain()) == []


@pytest.mark.parametrize("more", [{}, {"node": "worker-1", "ready": True}], ids=["unbound", "running"])
def test_fraction_with_the_default_scheduler(more: dict[str, Any]) -> None:
    scene = Scene().add(pod(group=None, scheduler="default-scheduler", fraction=0.5, **more))
    assert ids(scene.explain()) == ["spec.fraction-without-kai"]


@pytest.mark.parametrize(
    "more",
    [{"annotations": {"kai.scheduler/gpu-fraction": "0.5"}}, {"labels": {"gpu-memory": "2000"}}],
    ids=["prefix", "label"],
)
def test_key_that_kai_does_not_read(more: dict[str, Any]) -> None:
    scene = Scene().add(pod(node="worker-1", ready=True, **more))
    explanation = scene.explain()
    assert ids(explanation) == ["spec.share-key"]
    assert explanation.stage == "running"


@pytest.mark.parametrize(
    "more",
    [{"annotations": {"kai.scheduler/queue": "test"}}, {"labels": {"runai/queue": "test"}}],
    ids=["annotation", "old label"],
)
def test_queue_in_the_wrong_place(more: dict[str, Any]) -> None:
    scene = Scene().add(pod(queue=None, group=None, ago=1, **more))
    assert ids(scene.explain())[0] == "spec.queue-key"


@pytest.mark.parametrize(("spec", "why"), [({"suspend": True}, "suspended"), ({"parallelism": 0}, "wants no pods")])
def test_workload_that_wants_no_pods(spec: dict[str, Any], why: str) -> None:
    scene = Scene().add({"kind": "Job", "metadata": meta("p", SPACE), "spec": spec})
    explanation = scene.explain()
    assert ids(explanation) == ["spec.no-pods-wanted"]
    assert why in explanation.findings[0].what


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("UnexpectedAdmissionError", "pod.gpu-not-given"),
        ("OutOfnvidia.com/gpu", "pod.gpu-not-given"),
        ("OutOfcpu", "pod.resource-not-given"),
        ("NodeAffinity", "pod.resource-not-given"),
        ("Evicted", "pod.evicted"),
        ("DeadlineExceeded", "pod.deadline"),
        ("NodeShutdown", "pod.node-shutdown"),
    ],
)
def test_failed_pod(reason: str, rule: str) -> None:
    scene = Scene().add(pod("other", node="worker-1", ready=True, gpus=2))
    scene.add(pod(node="worker-1", gpus=1, status={"phase": "Failed", "reason": reason, "message": "because"}))
    explanation = scene.explain()
    assert ids(explanation) == [rule]
    assert any("because" in line for line in explanation.findings[0].evidence)


def test_double_booking_names_who_has_the_gpus() -> None:
    scene = Scene().add(pod("other", node="worker-1", ready=True, gpus=2))
    scene.add(pod(node="worker-1", gpus=1, status={"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "m"}))
    assert "worker-1: 2 GPUs held by team/other" in scene.explain().findings[0].evidence


def test_pod_that_ended_with_an_error() -> None:
    state = {"name": "main", "state": {"terminated": {"reason": "Error", "exitCode": 3}}, "restartCount": 0}
    scene = Scene().add(pod(node="worker-1", status={"phase": "Failed", "containerStatuses": [state]}))
    scene.logs = {"team/p": ("no such file",)}
    explanation = scene.explain()
    assert ids(explanation) == ["pod.exited"]
    assert explanation.findings[0].evidence == ("container main: Error with exit code 3", "log: no such file")


@pytest.mark.parametrize(
    ("ago", "finalizers", "ready", "action"),
    [
        (-20, [], "True", "wait;"),
        (60, ["a/b"], "True", "let a/b finish"),
        (60, [], "False", "bring node worker-1 back"),
    ],
)
def test_pod_that_is_being_deleted(ago: float, finalizers: list[str], ready: str, action: str) -> None:
    more = {"deletionTimestamp": stamp(ago), "finalizers": finalizers}
    scene = Scene().add(node("worker-1", ready=ready), pod(node="worker-1", ready=True, meta=more))
    explanation = scene.explain()
    assert ids(explanation) == ["pod.deleting"]
    assert explanation.findings[0].next.startswith(action)


def test_node_that_is_gone() -> None:
    scene = Scene().remove("Node", "worker-1").add(pod(node="worker-1", waiting="ContainerCreating"))
    assert ids(scene.explain()) == ["node.gone"]


def test_node_that_is_not_ready() -> None:
    scene = Scene().add(node("worker-1", ready="Unknown"), pod(node="worker-1", waiting="ContainerCreating"))
    assert ids(scene.explain()) == ["node.not-ready"]


def test_readiness_gate() -> None:
    conditions = [{"type": "ContainersReady", "status": "True"}, {"type": "x/lb", "status": "False", "reason": "r"}]
    state = {"name": "main", "ready": True, "state": {"running": {}}}
    scene = Scene().add(
        pod(
            node="worker-1",
            phase="Running",
            spec={"readinessGates": [{"conditionType": "x/lb"}]},
            status={"conditions": conditions, "containerStatuses": [state]},
        )
    )
    assert ids(scene.explain()) == ["pod.readiness-gate"]


def with_container(**state: Any) -> dict[str, Any]:
    """A bound pod whose container has this status."""
    return pod(
        node="worker-1", phase="Running", status={"containerStatuses": [{"name": "main", "ready": False, **state}]}
    )


def test_crash_loop_with_its_last_words() -> None:
    scene = Scene().add(
        with_container(
            restartCount=4,
            state={"waiting": {"reason": "CrashLoopBackOff"}},
            lastState={"terminated": {"reason": "Error", "exitCode": 127}},
        )
    )
    scene.logs = {"team/p": ("starting", "sh: nope: not found")}
    explanation = scene.explain()
    assert ids(explanation) == ["container.crash-loop"]
    assert explanation.findings[0].what.endswith("with exit code 127")
    assert explanation.findings[0].evidence == (
        "4 restarts; the command was not found",
        "log: starting",
        "log: sh: nope: not found",
    )
    assert explanation.findings[0].next == "kubectl logs p -n team -c main --previous"


def test_killed_at_its_memory_limit() -> None:
    made = with_container(
        restartCount=2,
        state={"waiting": {"reason": "CrashLoopBackOff"}},
        lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}},
    )
    made["spec"]["containers"][0]["resources"]["limits"]["memory"] = "64Mi"
    explanation = Scene().add(made).explain()
    assert ids(explanation) == ["container.oom"]
    assert explanation.findings[0].evidence[0] == "memory limit: 64Mi"


def test_init_container_that_goes_on() -> None:
    init = {"name": "wait", "ready": False, "state": {"running": {}}}
    main = {"name": "main", "ready": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    scene = Scene().add(pod(node="worker-1", status={"initContainerStatuses": [init], "containerStatuses": [main]}))
    assert ids(scene.explain()) == ["container.init"]


def test_init_container_that_is_done_is_no_reason() -> None:
    init = {"name": "wait", "ready": True, "state": {"terminated": {"exitCode": 0}}}
    main = {"name": "main", "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    scene = Scene().add(pod(node="worker-1", status={"initContainerStatuses": [init], "containerStatuses": [main]}))
    assert "container.init" not in ids(scene.explain())


@pytest.mark.parametrize(
    ("text", "restarts", "found"),
    [
        ("Readiness probe failed: HTTP probe failed with statuscode: 503", 0, ["container.not-ready"]),
        ("Startup probe failed: dial tcp 10.0.0.1:80: connect: connection refused", 0, ["container.startup"]),
        ("Liveness probe failed: no", 3, ["container.liveness", "container.not-ready"]),
    ],
)
def test_probes(text: str, restarts: int, found: list[str]) -> None:
    made = with_container(restartCount=restarts, state={"running": {}})
    scene = Scene().add(made).event(made, "Unhealthy", text, by="kubelet")
    assert ids(scene.explain()) == found


def test_running_and_not_ready_without_a_word() -> None:
    explanation = Scene().add(with_container(state={"running": {}})).explain()
    assert ids(explanation) == ["container.not-ready"]
    assert explanation.findings[0].certainty == "likely"


def test_one_of_two_containers_has_ended() -> None:
    done = {"name": "a", "ready": False, "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}
    scene = Scene().add(pod(node="worker-1", phase="Running", status={"containerStatuses": [done]}))
    assert ids(scene.explain()) == ["container.exited"]


def test_container_that_cannot_be_started() -> None:
    scene = Scene().add(pod(node="worker-1", waiting="CreateContainerError", message="who knows"))
    assert ids(scene.explain()) == ["container.waits"]


def test_container_that_is_being_made() -> None:
    scene = Scene().add(pod(node="worker-1", waiting="ContainerCreating"))
    explanation = scene.explain()
    assert ids(explanation) == ["container.starting"]
    assert explanation.findings[0].certainty == "possible"


@pytest.mark.parametrize(
    "more", [{}, {"gpus": 1}, {"fraction": 0.5, "labels": {"runai-gpu-group": GROUP}}], ids=["cpu", "whole", "fraction"]
)
def test_a_healthy_pod_gives_no_alarm(more: dict[str, Any]) -> None:
    from tests.support.explain_world import reservation

    scene = Scene().add(reservation())
    made = pod(node="worker-1", ready=True, **more)
    scene.add(made).event(made, "Unschedulable", "no nodes with enough resources were found", ago=60)
    scene.event(made, "Scheduled", "Successfully assigned", type="Normal", ago=50)
    explanation = scene.explain()
    assert (ids(explanation), explanation.settled, explanation.summary) == ([], True, "Running and Ready on worker-1")


def test_a_pod_that_is_done_gives_no_alarm() -> None:
    explanation = Scene().add(pod(node="worker-1", phase="Succeeded")).explain()
    assert (ids(explanation), explanation.settled) == ([], True)


def test_a_command_that_does_not_exist_is_named_also_while_it_backs_off() -> None:
    last = {
        "reason": "StartError",
        "exitCode": 128,
        "message": 'exec: "/nope": executable file not found in $PATH: unknown',
    }
    scene = Scene().add(
        with_container(
            restartCount=3, state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": last}
        )
    )
    explanation = scene.explain()
    assert ids(explanation) == ["container.no-command"]
    assert explanation.findings[0].what == "the image of Pod team/p cannot run its command /nope"
