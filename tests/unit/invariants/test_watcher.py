"""Watching by invariants: every state counts where nothing may be wrong, only what lasts everywhere else."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lab.errors import Interrupted
from lab.invariants import ALL, Scope, Violation, Watcher
from lab.invariants.watcher import FIRST_SECONDS, QUIET_SECONDS
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


def test_a_state_between_two_looks_is_judged(clock: FakeClock) -> None:
    one = watched(
        clock, *lists(reservation(), share("a", 0.5), share("b", 0.5)), 1.0, news("ADDED", LATE), news("DELETED", LATE)
    )
    (violation,) = one.violations
    assert violation.rule == "gpu-fractions"
    assert "add up to 1.5 GPUs" in violation.what
    assert one.waiting() == 0


def test_a_breach_that_stays_is_told_once(clock: FakeClock) -> None:
    one = watched(
        clock,
        *lists(reservation(), share("a", 0.5), share("b", 0.5), LATE),
        *(news("MODIFIED", share("b", 0.5)) for _ in range(3)),
        5.0,
        news("MODIFIED", share("c", 0.1, phase="Pending", on="")),
    )
    assert broken(one) == ["gpu-fractions"]


def test_a_breach_that_ends_and_comes_back_is_told_again(clock: FakeClock) -> None:
    again = [news("ADDED", LATE), 1.0, news("DELETED", LATE), 1.0]
    start = lists(reservation(), share("a", 0.9))
    assert broken(watched(clock, *start, *again, *again)).count("gpu-fractions") == 2


def test_one_batch_is_one_state(clock: FakeClock) -> None:
    # After a break the set is listed anew: what came and went in it was never there together.
    start = lists(reservation(), share("a", 0.5), share("b", 0.5))
    swap = InformerEvent("/", "Pod", (("ADDED", LATE), ("DELETED", share("a", 0.5))))
    assert watched(clock, *start, swap).violations == ()
    apart = [news("ADDED", LATE), news("DELETED", share("a", 0.5))]
    assert broken(watched(clock, *start, *apart)) == ["gpu-fractions"]


def test_a_breach_within_its_grace_is_none(clock: FakeClock) -> None:
    start = lists(reservation(), share("a", 0.5))
    done = news("MODIFIED", share("a", 0.5, phase="Succeeded"))
    assert watched(clock, *start, done, 29.0, news("DELETED", reservation())).violations == ()


def test_a_breach_is_told_when_its_grace_is_over_though_nothing_happens(clock: FakeClock) -> None:
    one = watched(
        clock, *lists(reservation(), share("a", 0.5)), news("MODIFIED", share("a", 0.5, phase="Succeeded")), 31.0
    )
    (violation,) = one.violations
    assert violation.rule == "reservation-used"
    assert 30 < (violation.reported - violation.since).total_seconds() < 31


def test_the_grace_begins_anew_when_the_breach_has_ended_meanwhile(clock: FakeClock) -> None:
    idle = news("MODIFIED", share("a", 0.5, phase="Succeeded"))
    start = [*lists(reservation(), share("a", 0.5)), idle, 20.0]
    used = news("ADDED", share("b", 0.5))
    assert watched(clock, *start, used, 1.0, news("DELETED", share("b", 0.5)), 20.0).violations == ()
    assert broken(watched(clock, *start, 20.0)) == ["reservation-used"]


def test_nothing_is_judged_before_it_is_known(clock: FakeClock) -> None:
    # Two whole-GPU pods too many, but nobody knows yet how many GPUs there are.
    pods = listed("Pod", *(pod(f"p{n}", gpus=1) for n in range(3)))
    one = watcher(clock, pods, 1.0)
    with one:
        one.step()
        assert one.violations == ()
    assert broken(watched(clock, pods, listed("Node", node()))) == ["whole-gpus"]


def test_a_kind_the_server_lacks_is_not_judged(clock: FakeClock) -> None:
    absent = [InformerEvent("/", kind, absent=True) for kind in ("PodGroup", "Queue", "BindRequest")]
    one = watched(clock, *lists(share("a", 0.5), kinds=("Pod", "Node", "ConfigMap")), *absent)
    states = {result.invariant.id: result for result in one.report().results}
    assert states["leaf-queues"].state == "not judged"
    assert states["leaf-queues"].why == "PodGroup: the server does not have it"
    assert states["gpu-fractions"].state == "held"
    assert states["reserved"].state == "broken"
    assert states["tenant-own-pods"].why == "no tenants are given"


def test_a_kind_that_comes_later_is_judged_from_then_on(clock: FakeClock) -> None:
    first = [
        InformerEvent("/", "BindRequest", absent=True),
        *lists(kinds=("Pod", "Node", "ConfigMap", "PodGroup", "Queue")),
    ]
    one = watched(clock, *first, 1.0, listed("BindRequest", bind_request("a")), 125.0)
    assert broken(one) == ["bind-ends"]


def test_a_kind_that_may_not_be_read_says_so(clock: FakeClock) -> None:
    refused = InformerEvent("/", "ConfigMap", refused="GET ConfigMap objects: forbidden (HTTP 403)")
    one = watched(clock, refused, *lists(kinds=("Pod", "Node", "BindRequest", "PodGroup", "Queue")))
    states = {result.invariant.id: result for result in one.report().results}
    assert "forbidden" in states["gpu-given"].why


def test_a_watch_that_broke_off_is_told(clock: FakeClock) -> None:
    one = watched(clock, *lists(), 1.0, InformerEvent("/", "Pod", trouble="Connection reset by peer"))
    (gap,) = one.report().gaps
    assert gap.endswith("cluster Pod: Connection reset by peer")
    assert one.report().ok


def test_what_is_known_from_before_a_break_is_not_judged(clock: FakeClock) -> None:
    # The tenant is being deleted: its API is gone before its pods are, and shows them for ever.
    host = Scope("", HOST.cluster, {"ml": HOST.cluster})
    web = pod("web", scheduler="default-scheduler")
    absent = [InformerEvent("/ml", kind, absent=True) for kind in ("Queue", "PodGroup")]
    start = [*lists(copy_of(web, "ml")), listed("Pod", web, source="/ml"), *absent, 1.0]
    broken_off = InformerEvent("/ml", "Pod", trouble="Connection refused")
    gone = [news("DELETED", copy_of(web, "ml")), 40.0]
    assert broken(watched(clock, *start, *gone, scopes=(host,))) == ["tenant-own-pods"]
    assert watched(FakeClock(), *start, broken_off, *gone, scopes=(host,)).violations == ()
    back = [broken_off, *gone, InformerEvent("/ml", "Pod"), 40.0]
    assert broken(watched(FakeClock(), *start, *back, scopes=(host,))) == ["tenant-own-pods"]


def test_tenants_are_judged_by_their_own_api(clock: FakeClock) -> None:
    host = Scope("", HOST.cluster, {"ml": HOST.cluster})
    web = pod("web", scheduler="default-scheduler")
    absent = [InformerEvent("/ml", kind, absent=True) for kind in ("Queue", "PodGroup")]
    start = [*lists(copy_of(web, "ml")), listed("Pod", web, source="/ml"), *absent]
    assert watched(clock, *start, scopes=(host,)).violations == ()
    foreign = news("ADDED", pod("foreign", scheduler="default-scheduler"), source="/ml")
    assert broken(watched(clock, *start, foreign, 31.0, scopes=(host,))) == ["tenant-own-pods"]


def test_a_tenant_with_its_own_kai_is_a_scope_of_its_own(clock: FakeClock) -> None:
    own = Scope("ml", HOST.cluster)
    pods = [share("a", 0.6), share("b", 0.6), reservation()]
    one = watched(clock, *lists(), *lists(*pods, source="ml/"), scopes=(HOST, own))
    (violation,) = one.violations
    assert (violation.side, violation.rule) == ("tenant ml", "gpu-fractions")
    assert violation.lines()[0].startswith("gpu-fractions in tenant ml at ")


def test_the_kai_of_a_tenant_is_remembered_while_it_is_away(clock: FakeClock) -> None:
    kai = copy_of(pod("binder", namespace="kai-scheduler", scheduler="default-scheduler"), "ml")
    user = copy_of(share("a", 0.5), "ml")
    start = lists(kai, copy_of(reservation(), "ml"), user)
    gone = [news("DELETED", kai), 1.0, news("DELETED", copy_of(reservation(), "ml"))]
    assert watched(clock, *start, *gone).violations == ()


def test_known_defects_of_of_the_kai_version_are_evidence(clock: FakeClock) -> None:
    old = Scope("", HOST.cluster, kai_version="0.9.8")
    start = lists(reservation(), share("a", 0.5), share("b", 0.6))
    (violation,) = watched(clock, *start, scopes=(old,)).violations
    assert violation.evidence[-1].startswith("known defect of KAI 0.9.8: ")


def test_settling_waits_for_what_stands_and_no_longer(clock: FakeClock) -> None:
    with watcher(clock, *lists(reservation())) as one:
        one.look()
        begun = clock()
        assert one.waiting() == 1
        one.settle()
        assert 30 < clock() - begun < 32
    assert broken(one) == ["reservation-used"]


def test_settling_ends_with_the_last_breach(clock: FakeClock) -> None:
    with watcher(clock, *lists(reservation()), 3.0, news("DELETED", reservation())) as one:
        one.settle()
        assert one.seconds < 5
    assert one.violations == ()


def test_settling_has_a_limit(clock: FakeClock) -> None:
    with watcher(clock, *lists(bind_request("a"))) as one:
        one.settle(limit=10)
        assert one.seconds < 12
    (waiting,) = [result.waiting for result in one.report().results if result.waiting]
    assert waiting[0].what == "pod t/a is neither bound nor refused"


def test_a_cluster_is_quiet_when_nothing_changes_and_nothing_may_pass(clock: FakeClock) -> None:
    with watcher(clock, *lists(), 3.0, news("MODIFIED", node()), 1.0) as one:
        one.look()
        assert not one.quiet
        one.run(lambda: one.quiet)
        # The kubelet's own writes into its Node do not count.
        assert QUIET_SECONDS <= one.seconds < QUIET_SECONDS + 1


def test_a_server_that_never_answers_is_given_up_after_a_while(clock: FakeClock) -> None:
    with watcher(clock, InformerEvent("/", "Pod", trouble="Connection refused")) as one:
        one.look()
        assert FIRST_SECONDS < one.seconds < FIRST_SECONDS + 2
        verdicts = one.report().results
    assert {verdict.state for verdict in verdicts} == {"not judged"}
    assert "Pod: Connection refused" in {verdict.why for verdict in verdicts}


def test_violations_are_told_as_they_come(clock: FakeClock) -> None:
    told: list[Violation] = []
    script = Script(clock, *lists(reservation(), share("a", 0.5)), 1.0, news("ADDED", share("b", 0.6)))
    with Watcher([HOST], clock=clock, informers=script, on_violation=told.append) as one:
        one.run(lambda: not script.steps)
        assert [violation.rule for violation in told] == ["gpu-fractions"]
        assert told == list(one.violations)


def test_a_thread_watches_until_it_is_stopped(clock: FakeClock) -> None:
    seen = threading.Event()
    steps = [*lists(reservation(), share("a", 0.5)), news("ADDED", share("b", 0.6))]
    with Watcher([HOST], clock=clock, informers=Script(clock, *steps), on_violation=lambda _: seen.set()) as one:
        one.start()
        assert seen.wait(10)
        one.stop()
        assert one.trouble is None


def test_what_ends_the_thread_is_kept(clock: FakeClock) -> None:
    class Cancelled(Script):
        def take(self, seconds: float) -> InformerEvent | None:
            raise Interrupted("stopped")

    with Watcher([HOST], clock=clock, informers=Cancelled(clock)) as one:
        one.start()
        one.stop()
    assert isinstance(one.trouble, Interrupted)


def test_a_storm_costs_few_looks(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.invariants import evaluator

    looks = []
    real = evaluator.Evaluator.look
    monkeypatch.setattr(evaluator.Evaluator, "look", lambda self, now: (looks.append(now), real(self, now))[1])
    storm: list[InformerEvent | float] = []
    for number in range(100):
        storm += [news("ADDED", pod(f"s{number}", fraction=0.5, on="", phase="Pending")), 0.01]
    watched(clock, *lists(), *storm)
    assert len(looks) < 1.0 / evaluator.LOOK_SECONDS + 12


def test_rules_that_must_always_hold_look_at_pods_and_nodes_only() -> None:
    # Watches of other kinds are not synchronized with those of pods.
    always = [invariant for invariant in ALL if not invariant.grace]
    assert len(always) >= 8
    assert {kind for invariant in always for kind in invariant.needs} == {"Pod", "Node"}


def test_every_grace_has_its_reason() -> None:
    assert [invariant.id for invariant in ALL if bool(invariant.grace) != bool(invariant.why_grace)] == []
    assert len({invariant.id for invariant in ALL}) == len(ALL)


def test_violations_survive_a_file() -> None:
    clock = FakeClock()
    (violation,) = watched(clock, *lists(reservation(), share("a", 0.5), share("b", 0.6))).violations
    assert Violation.from_json(to_json(violation)) == violation
