"""The watcher: evaluates invariants without grace on every state, the others after their grace period."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.errors import Interrupted
from lab.invariants import ALL, Scope, Violation, Watcher
from lab.invariants.known_defects import PROOF_SECONDS
from lab.invariants.watcher import FIRST_SECONDS, QUIET_SECONDS
from lab.kube import Cluster
from lab.kube.informers import InformerEvent
from lab.serialization import to_json
from tests.support.fakes import FakeClock
from tests.support.invariants_world import (
    HOST,
    Script,
    bind_request,
    broken,
    copy_of,
    listed,
    lists,
    news,
    node,
    pod,
    reservation,
    share,
    watched,
)

LATE = share("late", 0.5)


def watcher(
    clock: FakeClock, *steps: InformerEvent | float, scopes: tuple[Scope, ...] = (HOST,), **more: Any
) -> Watcher:
    return Watcher(scopes, clock=clock, informers=Script(clock, *steps), **more)


def test_transient_state_is_evaluated(clock: FakeClock) -> None:
    watch = watched(
        clock, *lists(reservation(), share("a", 0.5), share("b", 0.5)), 1.0, news("ADDED", LATE), news("DELETED", LATE)
    )
    (violation,) = watch.violations
    assert violation.rule == "gpu-fractions"
    assert "add up to 1.5 GPUs" in violation.what
    assert watch.waiting() == 0


def test_lasting_breach_is_reported_once(clock: FakeClock) -> None:
    watch = watched(
        clock,
        *lists(reservation(), share("a", 0.5), share("b", 0.5), LATE),
        *(news("MODIFIED", share("b", 0.5)) for _ in range(3)),
        5.0,
        news("MODIFIED", share("c", 0.1, phase="Pending", on="")),
    )
    assert broken(watch) == ["gpu-fractions"]


def test_recurring_breach_is_reported_again(clock: FakeClock) -> None:
    pulse = [news("ADDED", LATE), 1.0, news("DELETED", LATE), 1.0]
    start = lists(reservation(), share("a", 0.9))
    assert broken(watched(clock, *start, *pulse, *pulse)).count("gpu-fractions") == 2


def test_batch_of_changes_is_one_state(clock: FakeClock) -> None:
    # The list after a broken watch is one state: its changes were never visible separately.
    start = lists(reservation(), share("a", 0.5), share("b", 0.5))
    swap = InformerEvent("/", "Pod", (("ADDED", LATE), ("DELETED", share("a", 0.5))))
    assert watched(clock, *start, swap).violations == ()
    separate = [news("ADDED", LATE), news("DELETED", share("a", 0.5))]
    assert broken(watched(clock, *start, *separate)) == ["gpu-fractions"]


def test_breach_within_its_grace_is_no_violation(clock: FakeClock) -> None:
    start = lists(reservation(), share("a", 0.5))
    done = news("MODIFIED", share("a", 0.5, phase="Succeeded"))
    assert watched(clock, *start, done, 29.0, news("DELETED", reservation())).violations == ()


def test_breach_is_reported_after_its_grace_without_further_events(clock: FakeClock) -> None:
    watch = watched(
        clock, *lists(reservation(), share("a", 0.5)), news("MODIFIED", share("a", 0.5, phase="Succeeded")), 31.0
    )
    (violation,) = watch.violations
    assert violation.rule == "reservation-used"
    assert 30 < (violation.reported - violation.since).total_seconds() < 31


def test_grace_restarts_when_the_breach_clears(clock: FakeClock) -> None:
    idle = news("MODIFIED", share("a", 0.5, phase="Succeeded"))
    start = [*lists(reservation(), share("a", 0.5)), idle, 20.0]
    used = news("ADDED", share("b", 0.5))
    assert watched(clock, *start, used, 1.0, news("DELETED", share("b", 0.5)), 20.0).violations == ()
    assert broken(watched(clock, *start, 20.0)) == ["reservation-used"]


def test_rules_are_not_evaluated_before_their_kinds_are_listed(clock: FakeClock) -> None:
    # Too many whole-GPU pods, but the number of GPUs is not known yet.
    pods = listed("Pod", *(pod(f"p{n}", gpus=1) for n in range(3)))
    watch = watcher(clock, pods, 1.0)
    with watch:
        watch.step()
        assert watch.violations == ()
    assert broken(watched(clock, pods, listed("Node", node()))) == ["whole-gpus"]


def test_rules_on_absent_kinds_are_not_evaluated(clock: FakeClock) -> None:
    absent = [InformerEvent("/", kind, absent=True) for kind in ("PodGroup", "Queue", "BindRequest")]
    watch = watched(clock, *lists(share("a", 0.5), kinds=("Pod", "Node", "ConfigMap")), *absent)
    states = {result.invariant.id: result for result in watch.report().results}
    assert states["leaf-queues"].state == "not judged"
    assert states["leaf-queues"].why == "PodGroup: the server does not have it"
    assert states["gpu-fractions"].state == "held"
    assert states["reserved"].state == "broken"
    assert states["tenant-own-pods"].why == "no tenants are given"


def test_rules_on_a_late_kind_are_evaluated_once_it_exists(clock: FakeClock) -> None:
    first = [
        InformerEvent("/", "BindRequest", absent=True),
        *lists(kinds=("Pod", "Node", "ConfigMap", "PodGroup", "Queue")),
    ]
    watch = watched(clock, *first, 1.0, listed("BindRequest", bind_request("a")), 125.0)
    assert broken(watch) == ["bind-ends"]


def test_forbidden_kind_is_the_reason_for_no_evaluation(clock: FakeClock) -> None:
    refused = InformerEvent("/", "ConfigMap", refused="GET ConfigMap objects: forbidden (HTTP 403)")
    watch = watched(clock, refused, *lists(kinds=("Pod", "Node", "BindRequest", "PodGroup", "Queue")))
    states = {result.invariant.id: result for result in watch.report().results}
    assert "forbidden" in states["gpu-given"].why


def test_broken_watch_is_reported_as_a_gap(clock: FakeClock) -> None:
    watch = watched(clock, *lists(), 1.0, InformerEvent("/", "Pod", trouble="Connection reset by peer"))
    (gap,) = watch.report().gaps
    assert gap.endswith("cluster Pod: Connection reset by peer")
    assert watch.report().ok


def test_stale_objects_of_a_broken_watch_are_not_evaluated(clock: FakeClock) -> None:
    # A deleted tenant's API ends before its pods do, so the last known pods stay in the store.
    host = Scope("", HOST.cluster, {"ml": HOST.cluster})
    web = pod("web", scheduler="default-scheduler")
    absent = [InformerEvent("/ml", kind, absent=True) for kind in ("Queue", "PodGroup")]
    start = [*lists(copy_of(web, "ml")), listed("Pod", web, source="/ml"), *absent, 1.0]
    broken_watch = InformerEvent("/ml", "Pod", trouble="Connection refused")
    gone = [news("DELETED", copy_of(web, "ml")), 40.0]
    assert broken(watched(clock, *start, *gone, scopes=(host,))) == ["tenant-own-pods"]
    assert watched(FakeClock(), *start, broken_watch, *gone, scopes=(host,)).violations == ()
    back = [broken_watch, *gone, InformerEvent("/ml", "Pod"), 40.0]
    assert broken(watched(FakeClock(), *start, *back, scopes=(host,))) == ["tenant-own-pods"]


def test_tenant_rules_read_the_api_of_the_tenant(clock: FakeClock) -> None:
    host = Scope("", HOST.cluster, {"ml": HOST.cluster})
    web = pod("web", scheduler="default-scheduler")
    absent = [InformerEvent("/ml", kind, absent=True) for kind in ("Queue", "PodGroup")]
    start = [*lists(copy_of(web, "ml")), listed("Pod", web, source="/ml"), *absent]
    assert watched(clock, *start, scopes=(host,)).violations == ()
    foreign = news("ADDED", pod("foreign", scheduler="default-scheduler"), source="/ml")
    assert broken(watched(clock, *start, foreign, 31.0, scopes=(host,))) == ["tenant-own-pods"]


def test_own_kai_tenant_is_a_scope_of_its_own(clock: FakeClock) -> None:
    own = Scope("ml", HOST.cluster)
    pods = [share("a", 0.6), share("b", 0.6), reservation()]
    watch = watched(clock, *lists(), *lists(*pods, source="ml/"), scopes=(HOST, own))
    (violation,) = watch.violations
    assert (violation.side, violation.rule) == ("tenant ml", "gpu-fractions")
    assert violation.lines()[0].startswith("gpu-fractions in tenant ml at ")


def test_own_kai_of_a_tenant_is_remembered_while_it_is_uninstalled(clock: FakeClock) -> None:
    kai = copy_of(pod("binder", namespace="kai-scheduler", scheduler="default-scheduler"), "ml")
    user = copy_of(share("a", 0.5), "ml")
    start = lists(kai, copy_of(reservation(), "ml"), user)
    gone = [news("DELETED", kai), 1.0, news("DELETED", copy_of(reservation(), "ml"))]
    assert watched(clock, *start, *gone).violations == ()


def test_known_defects_of_the_kai_version_are_evidence(clock: FakeClock) -> None:
    old = Scope("", HOST.cluster, kai_version="0.9.8")
    start = lists(reservation(), share("a", 0.5), share("b", 0.6))
    (violation,) = watched(clock, *start, scopes=(old,)).violations
    assert violation.evidence[-1].startswith("known defect of KAI 0.9.8: ")


def test_settling_waits_for_the_grace_of_current_breaches(clock: FakeClock) -> None:
    with watcher(clock, *lists(reservation())) as watch:
        watch.look()
        start = clock()
        assert watch.waiting() == 1
        watch.settle()
        assert 30 < clock() - start < 32
    assert broken(watch) == ["reservation-used"]


def test_violation_is_reported_when_its_cause_is_logged_or_a_moment_later(clock: FakeClock) -> None:
    log = ["nothing"]
    binder = pod("binder", namespace="kai-scheduler", scheduler="default-scheduler")
    answers = {"list": lambda *_, **__: [binder], "logs": lambda *_: log[0]}
    where = Scope("", cast("Cluster", SimpleNamespace(**answers)), kai_version="0.16.8")
    three = [reservation(f"g{number}", f"GPU-{number}") for number in range(3)]
    with watcher(clock, *lists(*three), scopes=(where,)) as watch:
        watch.look()
        assert (watch.violations, watch.waiting()) == ((), 4)
        log[0] = 'Did not find fraction pod for gpu group, deleting reservation pod {"gpuGroup": "g1"}'
        watch.run(lambda: bool(watch.violations))
        assert watch.seconds < PROOF_SECONDS + 1
    assert [one.defect for one in watch.violations] == ["unused-reservation-not-counted"]
    with watcher(FakeClock(), *lists(*three), scopes=(Scope("", HOST.cluster, kai_version="0.16.8"),)) as watch:
        watch.settle()
    assert {(one.rule, one.defect) for one in watch.violations} >= {("whole-gpus", "")}


def test_settling_ends_when_the_last_breach_clears(clock: FakeClock) -> None:
    with watcher(clock, *lists(reservation()), 3.0, news("DELETED", reservation())) as watch:
        watch.settle()
        assert watch.seconds < 5
    assert watch.violations == ()


def test_settling_ends_at_its_limit(clock: FakeClock) -> None:
    with watcher(clock, *lists(bind_request("a"))) as watch:
        watch.settle(limit=10)
        assert watch.seconds < 12
    (waiting,) = [result.waiting for result in watch.report().results if result.waiting]
    assert waiting[0].what == "pod t/a is neither bound nor refused"


def test_cluster_is_quiet_without_changes_and_breaches(clock: FakeClock) -> None:
    with watcher(clock, *lists(), 3.0, news("MODIFIED", node()), 1.0) as watch:
        watch.look()
        assert not watch.quiet
        watch.run(lambda: watch.quiet)
        # Updates of a Node by its kubelet do not count.
        assert QUIET_SECONDS <= watch.seconds < QUIET_SECONDS + 1


def test_unreachable_server_ends_the_first_look_after_a_time(clock: FakeClock) -> None:
    with watcher(clock, InformerEvent("/", "Pod", trouble="Connection refused")) as watch:
        watch.look()
        assert FIRST_SECONDS < watch.seconds < FIRST_SECONDS + 2
        results = watch.report().results
    assert {result.state for result in results} == {"not judged"}
    assert "Pod: Connection refused" in {result.why for result in results}


def test_violations_are_passed_to_the_callback(clock: FakeClock) -> None:
    reported: list[Violation] = []
    script = Script(clock, *lists(reservation(), share("a", 0.5)), 1.0, news("ADDED", share("b", 0.6)))
    with Watcher([HOST], clock=clock, informers=script, on_violation=reported.append) as watch:
        watch.run(lambda: not script.steps)
        assert [violation.rule for violation in reported] == ["gpu-fractions"]
        assert reported == list(watch.violations)


def test_thread_watches_until_stopped(clock: FakeClock) -> None:
    seen = threading.Event()
    steps = [*lists(reservation(), share("a", 0.5)), news("ADDED", share("b", 0.6))]
    with Watcher([HOST], clock=clock, informers=Script(clock, *steps), on_violation=lambda _: seen.set()) as watch:
        watch.start()
        assert seen.wait(10)
        watch.stop()
        assert watch.trouble is None


def test_error_that_ends_the_thread_is_kept(clock: FakeClock) -> None:
    class Cancelled(Script):
        def take(self, seconds: float) -> InformerEvent | None:
            raise Interrupted("stopped")

    with Watcher([HOST], clock=clock, informers=Cancelled(clock)) as watch:
        watch.start()
        watch.stop()
    assert isinstance(watch.trouble, Interrupted)


def test_burst_of_events_causes_few_evaluations(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.invariants import evaluator

    looks = []
    real = evaluator.Evaluator.look
    monkeypatch.setattr(evaluator.Evaluator, "look", lambda self, now: (looks.append(now), real(self, now))[1])
    burst: list[InformerEvent | float] = []
    for number in range(100):
        burst += [news("ADDED", pod(f"s{number}", fraction=0.5, on="", phase="Pending")), 0.01]
    watched(clock, *lists(), *burst)
    assert len(looks) < 1.0 / evaluator.LOOK_SECONDS + 12


def test_rules_without_grace_need_pods_and_nodes_only() -> None:
    # Watches of other kinds are not synchronized with those of pods.
    always = [invariant for invariant in ALL if not invariant.grace]
    assert len(always) >= 8
    assert {kind for invariant in always for kind in invariant.needs} == {"Pod", "Node"}


def test_every_grace_has_a_reason() -> None:
    assert [invariant.id for invariant in ALL if bool(invariant.grace) != bool(invariant.why_grace)] == []
    assert len({invariant.id for invariant in ALL}) == len(ALL)


def test_violations_survive_serialization() -> None:
    clock = FakeClock()
    (violation,) = watched(clock, *lists(reservation(), share("a", 0.5), share("b", 0.6))).violations
    assert Violation.from_json(to_json(violation)) == violation


def test_lasting_violations_are_those_that_still_exist(clock: FakeClock) -> None:
    healthy = lists(reservation(), share("a", 0.5), share("b", 0.5))
    watch = watcher(clock, *healthy, news("ADDED", LATE), 5.0, news("DELETED", LATE), 5.0)
    with watch:
        watch.run(lambda: bool(watch.lasting))
        assert [one.rule for one in watch.lasting] == ["gpu-fractions"]
        watch.run(lambda: watch.seconds > 8)
        assert watch.lasting == ()
        assert broken(watch) == ["gpu-fractions"]


def test_only_the_newest_violations_are_kept(clock: FakeClock) -> None:
    storm: list[InformerEvent | float] = []
    for _ in range(5):
        storm += [news("ADDED", LATE), 1.0, news("DELETED", LATE), 1.0]
    watch = watcher(clock, *lists(reservation(), share("a", 0.5), share("b", 0.5)), *storm, keep=2)
    with watch:
        watch.run(lambda: watch.seconds > 12)
    assert len(watch.violations) == 2


def test_version_of_a_running_kai_is_read_from_its_pods(clock: FakeClock) -> None:
    pods = []
    for app in ("binder", "podgrouper", "scheduler"):
        one = pod(app, namespace="kai-scheduler", scheduler="default-scheduler", labels={"app": app})
        one["spec"]["containers"] = [{"name": app, "image": f"registry.example/{app}:v0.17.0"}]
        pods.append(one)
    late = [share("a", 0.5), share("b", 0.5), LATE]
    watch = watched(clock, *lists(reservation(), *late, *pods))
    assert "known defect of KAI 0.17.0" in watch.violations[0].evidence[-1]
    of_a_tenant = [copy_of(one, "ml") for one in pods]
    watch = watched(FakeClock(), *lists(reservation(), *late, *of_a_tenant))
    assert "known defect" not in watch.violations[0].evidence[-1]
    given = Scope("", HOST.cluster, kai_version="0.9.8")
    watch = watched(FakeClock(), *lists(reservation(), *late, *pods), scopes=(given,))
    assert "known defect of KAI 0.9.8" in watch.violations[0].evidence[-1]
