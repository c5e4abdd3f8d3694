"""Known defects of KAI's binder, by making the API server slow, deaf or forbidding at the wrong moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from lab.errors import WaitTimeout
from lab.invariants import Watcher
from lab.invariants.catalogue import ALL
from lab.invariants.model import Invariant
from lab.invariants.verify import verify
from lab.kai import line_of
from lab.kai.names import RECEIVED_ANNOTATION
from lab.objects.views import PodView
from lab.operations.verify import scopes_of_lab
from lab.steps.kai.step import NAMESPACE
from lab.workloads.modifiers import of_priority, on_node
from lab.workloads.pods import fraction_pod, gpu_pod
from scripts.can_run_cases import scheduler_period
from scripts.scenarios.admission_cases import policy, webhook
from scripts.scenarios.capture import setting_of
from scripts.scenarios.cluster_changes import OnNodes
from scripts.scenarios.kai_cases import on_bindings
from scripts.scenarios.manifests import over
from scripts.workbench import EFFECT_SECONDS, SECONDS, Json, Seen, Workbench, workers
from tests.e2e.kai_components import pods

_PERIOD_SECONDS = 5.0
"""Of the scheduler: long enough for the binder to try a failed bind again, after 1 s."""
_BIND_SECONDS = 20.0
"""Of a bind that takes 10 s of admission."""
_ROUNDS = 20
"""How often a race is tried."""
_DENIED = "kailab.dev/denied"
_SILENT = 9
"""A port of the control plane that is made to swallow connections: a webhook there never answers."""


def group_lost_on_rollback(b: Workbench) -> Seen | None:
    """The API server bound a pod with a fraction after 10 s of admission; its answer to KAI's binder was lost."""
    _slow(b, on_bindings(webhook("slow", b.space)))
    b.host.submit(fraction_pod("train"))
    b.cluster.wait(
        "Pod",
        lambda pods: any(RECEIVED_ANNOTATION in (pod["metadata"].get("annotations") or {}) for pod in pods),
        namespace=b.space,
        timeout=SECONDS,
        what="the binder binds the pod",
    )
    _lose_answers(b, until=("Rolling back", b.space))
    b.cluster.poll(lambda: not PodView.of(b.cluster.list("Pod", b.space)[0]).gpu_groups, timeout=30)
    return _proven(b, "group-lost-on-rollback")


def double_reservation(b: Workbench) -> Seen | None:
    """The API server created a reservation pod after 10 s of admission; its answer to KAI's binder was lost."""
    _slow(b, webhook("slow", line_of(str(b.lab.kai_version)).reservation_namespace))
    b.host.submit(fraction_pod("train"))
    b.cluster.wait("BindRequest", bool, namespace=b.space, timeout=SECONDS, what="the scheduler has chosen a node")
    time.sleep(EFFECT_SECONDS)
    _lose_answers(b, until=("Failed to create GPU reservation pod on node",))
    b.host.running("train", timeout=SECONDS)
    report = verify(scopes_of_lab(b.lab), invariants=[one for one in ALL if one.id == "one-reservation"])
    return Seen.of(report.violations[0]) if report.violations else None


def early_reservation_removal(b: Workbench) -> Seen | None:
    """A pod got the label of its GPU group after 10 s of admission; the answer to KAI's binder was lost."""
    hook = webhook("slow", b.space)
    updates = [{**rule, "operations": ["UPDATE"]} for rule in hook["webhooks"][0]["rules"]]
    _slow(b, {**hook, "webhooks": [{**hook["webhooks"][0], "rules": updates}]})
    b.host.submit(fraction_pod("train"))
    b.cluster.wait(
        "Pod",
        lambda pods: any(PodView.of(pod).reserved_gpu for pod in pods),
        namespace=line_of(str(b.lab.kai_version)).reservation_namespace,
        timeout=SECONDS,
        what="a reservation pod has its GPU",
    )
    deleted = "Did not find fraction pod for gpu group, deleting reservation pod"
    _lose_answers(b, until=(deleted,))
    (pod,) = map(PodView.of, b.cluster.list("Pod", b.space))
    (group,) = pod.gpu_groups or ("none",)
    lines = b.log("binder", deleted, group)
    evidence = (f"pod {b.space}/train: GPU group {group}", *(f"log of binder: {line}" for line in lines[:1]))
    return Seen("the reservation pod of a GPU group that a pod belongs to is deleted", evidence) if lines else None


def reservation_lost_on_retry(b: Workbench) -> Seen | None:
    """The API server denied the first binding of a pod with a fraction, and allowed the second, a second later."""
    _deniable(b)
    for number in range(_ROUNDS):
        name = f"train-{number}"
        _deny_bindings(b, True)
        b.host.submit(fraction_pod(name))
        _failed_once(b, name)
        _deny_bindings(b, False)
        b.host.running(name, timeout=SECONDS)
        if seen := _proven(b, "reservation-lost-on-retry"):
            return seen
        b.host.remove(name)
    return None


def unused_reservation_not_counted(b: Workbench) -> Seen | None:
    """The API server denied all bindings of two halves for each GPU, and the binder tried them again and again."""
    setting = setting_of(b.lab)
    _deniable(b)
    _deny_bindings(b, True)
    with Watcher(scopes_of_lab(b.lab), _broken_by("unused-reservation-not-counted")) as watcher:
        watcher.look()
        b.host.submit(*(fraction_pod(f"half-{number}") for number in range(2 * setting.gpus * setting.workers)))
        began = watcher.seconds
        watcher.run(lambda: any(one.defect for one in watcher.violations) or watcher.seconds - began > SECONDS)
        return next((Seen.of(one) for one in watcher.violations if one.defect), None)


def over_packed_on_retry(b: Workbench) -> Seen | None:
    """Scheduler cycles were 5 s apart. The binding of a half was denied, then took 10 s; a more urgent half came."""
    setting = setting_of(b.lab)
    b.undo.enter_context(scheduler_period(b.lab, _PERIOD_SECONDS))
    b.run(*(gpu_pod(f"whole-{number}") for number in range(setting.gpus * setting.workers - 1)), fraction_pod("first"))
    _deniable(b)
    _slow(b, on_bindings(webhook("slow", b.space)))
    for _ in range(_ROUNDS):
        _deny_bindings(b, True)
        b.host.submit(fraction_pod("second"))
        _failed_once(b, "second")
        _deny_bindings(b, False)
        b.host.submit(of_priority(fraction_pod("urgent"), "build"))
        b.host.running("urgent", timeout=SECONDS)
        with suppress(WaitTimeout):
            b.host.running("second", timeout=_BIND_SECONDS)
        if seen := _proven(b, "over-packed-on-retry"):
            return seen
        b.host.remove("second", "urgent")
    return None


def counted_in_another_group(b: Workbench) -> Seen | None:
    """Scheduler cycles were 5 s apart. The binding of a half to one node was denied, then took 10 s; meanwhile half a
    GPU of another node became free. Then a half for the first node came.
    """
    near, far, *_ = workers(b.lab)
    b.undo.enter_context(scheduler_period(b.lab, _PERIOD_SECONDS))
    rest = setting_of(b.lab).gpus - 1
    b.run(*(on_node(gpu_pod(f"whole-{number}", gpus=rest), node) for number, node in enumerate((near, far))))
    b.run(on_node(fraction_pod("stays"), far))
    _deniable(b)
    _slow(b, on_bindings(webhook("slow", b.space)))
    for _ in range(_ROUNDS):
        b.host.submit(on_node(fraction_pod("leaves"), far))
        b.host.running("leaves", timeout=SECONDS)
        _deny_bindings(b, True)
        b.host.submit(fraction_pod("moved"))
        _failed_once(b, "moved")
        _deny_bindings(b, False)
        b.host.remove("leaves")
        (moved,) = b.host.running("moved", timeout=SECONDS)
        if moved.node == near:
            b.host.submit(on_node(fraction_pod("next"), near))
            with suppress(WaitTimeout):
                b.host.running("next", timeout=_BIND_SECONDS)
            if seen := _proven(b, "counted-in-another-group"):
                return seen
            b.host.remove("next")
        b.host.remove("moved")
    return None


def _deniable(b: Workbench) -> None:
    """Let ``_deny_bindings`` decide whether pods of the namespace can be bound."""
    deny, binding = policy(f"broken-{b.space}", b.space, "pods/binding")
    b.create(deny)
    b.create(over(binding, {"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {_DENIED: "yes"}}}}}))
    time.sleep(EFFECT_SECONDS)


def _failed_once(b: Workbench, pod: str) -> None:
    """Wait until the binding of the pod was denied. Raises WaitTimeout."""
    b.cluster.wait(
        "BindRequest",
        lambda found: any((one.get("status") or {}).get("phase") == "Failed" for one in found),
        namespace=b.space,
        fields=f"metadata.name={pod}",
        timeout=SECONDS,
        what="the first binding is denied",
    )


def _deny_bindings(b: Workbench, deny: bool) -> None:
    """By a label, which the API server knows at once; the end of a policy only within a second."""
    b.cluster.patch("Namespace", b.space, {"metadata": {"labels": {_DENIED: "yes" if deny else None}}})


def _broken_by(defect: str) -> list[Invariant]:
    return [one for one in ALL if defect in one.defects]


def _proven(b: Workbench, defect: str) -> Seen | None:
    """The violation that ``verify`` attributes to the defect, with the proof."""
    report = verify(scopes_of_lab(b.lab), invariants=_broken_by(defect))
    proven = [one for one in report.violations if one.defect == defect]
    return Seen.of(proven[0]) if proven else None


def _slow(b: Workbench, hook: Json) -> None:
    """Delay what a webhook is for by 10 s."""
    silent = f"INPUT -i lo -p tcp --dport {_SILENT} -j DROP"
    _on_nodes(b, f"iptables -w -I {silent}", f"iptables -w -D {silent}", control_plane=True)
    more = {"clientConfig": {"url": f"https://127.0.0.1:{_SILENT}/"}, "failurePolicy": "Ignore", "timeoutSeconds": 10}
    b.create({**hook, "webhooks": [{**hook["webhooks"][0], **more}]})
    time.sleep(EFFECT_SECONDS)


def _lose_answers(b: Workbench, until: tuple[str, ...]) -> None:
    """Drop what the API server answers to the binder until that gives up, and logs a line with these texts.

    HTTP/2 gives a connection up after 45 s without an answer.
    """
    before = len(b.log("binder", *until))
    (binder,) = b.cluster.list("Pod", NAMESPACE, labels=pods(b.lab, "binder"))
    # in a lab of one node the API server's answers are not forwarded
    answers = [f"{chain} -d {binder['status']['podIP']} -p tcp --sport 6443 -j DROP" for chain in ("FORWARD", "OUTPUT")]
    lose, find = (" && ".join(f"iptables -w {verb} {one}" for one in answers) for verb in ("-I", "-D"))
    restored = [_on_nodes(b, lose, find, control_plane=which) for which in (True, False)]
    b.cluster.poll(lambda: len(b.log("binder", *until)) > before, timeout=SECONDS)
    for restore in restored:
        restore()


def _on_nodes(b: Workbench, script: str, revert: str, *, control_plane: bool = False) -> Callable[[], None]:
    """Run a script in the workers or the control plane; returns what reverts it before the end of the situation."""
    change = OnNodes(script, f"{revert} 2>/dev/null || true", control_plane=control_plane)
    b.undo.callback(change.undo, b.cluster)
    change.do(b.cluster)
    return partial(change.undo, b.cluster)
