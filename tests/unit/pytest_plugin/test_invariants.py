"""Invariants in nested pytest runs: which test a violation fails."""

from __future__ import annotations

import pytest

from lab.errors import ApiFailed
from lab.invariants import ALL
from tests.support.fake_lab import FakeLab, Run
from tests.support.fake_watcher import FakeWatcher, watched

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    return watched(pytester, FakeLab(), monkeypatch)


def test_violation_in_its_namespace_fails_the_test(run: Run) -> None:
    result = run(
        """
        def test_bad(workloads, wrong): wrong(f"pod {workloads.namespace}/a has no reservation pod")
        def test_next(workloads): pass
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "1 violations of invariants in this test",
            "*| reserved at *: pod t-test-bad-*/a has no reservation pod",
            "*pod x/y: Running",
        ]
    )
    assert FakeWatcher.last.calls == ["look", "start", "stop", "settle 35", "exit"]
    assert [scope.name for scope in FakeWatcher.last.scopes] == [""]
    assert set(FakeWatcher.last.scopes[0].tenants) == {"ml", "ops", "research"}


def test_violation_during_teardown_is_an_error_of_the_test(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.fixture
        def late(workloads, wrong):
            yield
            wrong(f"pod {workloads.namespace}/a")

        def test_bad(late): pass
        """
    )
    result.assert_outcomes(passed=1, errors=1)


def test_violation_of_another_namespace_fails_the_run(run: Run) -> None:
    result = run("def test_fine(workloads, wrong): wrong('pod t-other-test-0a1b2c/a is wrong')")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["1 violations of invariants that belong to no single test", "*reserved at *", "*ran then: *::test_fine"]
    )


def test_violation_without_a_namespace_fails_the_only_running_test(run: Run) -> None:
    run("def test_bad(lab, wrong): wrong('GPU group g')").assert_outcomes(failed=1)


def test_violation_from_before_the_test_fails_the_run(run: Run) -> None:
    result = run("def test_fine(workloads, wrong): wrong(f'pod {workloads.namespace}/a', ago=60)")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*belong to no single test*"])


def test_disturbing_test_may_violate_invariants(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.disturbs("stops the binder")
        def test_all(workloads, wrong): wrong(f"pod {workloads.namespace}/a")
        """
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*expected: reserved in *::test_all (stops the binder)"])


def test_breaks_marker_allows_the_named_invariants_only(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.breaks("reserved", "gpu-told", reason="deletes a reservation pod")
        def test_named(workloads, wrong): wrong(f"pod {workloads.namespace}/a")

        @pytest.mark.breaks("bind-ends", reason="stops the binder")
        def test_another(workloads, wrong): wrong(f"pod {workloads.namespace}/a")

        @pytest.mark.breaks("reserved", reason="deletes a reservation pod")
        def test_of_others(workloads, wrong): wrong("pod t-other-test-0a1b2c/a")
        """,
        "-rf",
    )
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["expected: reserved in *::test_named (*)", "FAILED *::test_another*", "FAILED kailab::invariants*"]
    )


def test_breaks_marker_refuses_an_unknown_invariant(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.breaks("no-such-thing", reason="typo")
        def test_typo(workloads): pass
        """
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*unknown invariant: no-such-thing*"])


def test_failed_test_keeps_its_own_reason(run: Run) -> None:
    result = run(
        """
        def test_bad(workloads, wrong):
            wrong(f"pod {workloads.namespace}/a")
            assert workloads.namespace == "elsewhere"
        """
    )
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["1 violations of invariants in this test", "*AssertionError*"])


def test_summary_reports_the_watched_time(run: Run) -> None:
    result = run("def test_fine(lab): pass")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*- invariants -*", f"{len(ALL)} held; watched for 12 s"])


@pytest.mark.parametrize("verb", ["look", "settle"])
def test_watcher_error_is_reported_and_fails_nothing(run: Run, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    def fail(*_: object) -> None:
        raise ApiFailed("no answer")

    monkeypatch.setattr(FakeWatcher, verb, fail)
    result = run("def test_fine(lab): pass")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["watching ended early: no answer"])


def test_stopped_watcher_is_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWatcher, "fails", ApiFailed("no answer"))
    result = run("def test_fine(lab): pass")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["watching ended early: no answer"])
    assert "settle 35" not in FakeWatcher.last.calls


@pytest.mark.parametrize(("text", "name"), [("def test_plain(): pass", "demo"), ("def test_lost(lab): pass", "other")])
def test_without_a_lab_nothing_is_watched(run: Run, text: str, name: str) -> None:
    result = run(text, name=name)
    result.stdout.no_fnmatch_line("*watched for*")


def test_invariants_fixture_checks_on_demand_and_at_the_end(run: Run) -> None:
    result = run(
        """
        def test_bad(invariants, wrong):
            wrong("GPU group g")
            invariants.check()
            raise AssertionError("not reached")

        def test_at_the_end(invariants, wrong): wrong("GPU group g")
        def test_fine(invariants): assert invariants.check().ok
        """
    )
    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines([f"1 of {len(ALL)} invariants broken: reserved"])
    result.stdout.no_fnmatch_line("*not reached")


def test_violation_of_the_run_is_a_junit_failure(run: Run, pytester: pytest.Pytester) -> None:
    run("def test_fine(workloads, wrong): wrong('pod t-other-test-0a1b2c/a')", "-p", "junitxml", "--junitxml=j.xml")
    text = (pytester.path / "j.xml").read_text()
    assert 'failures="1"' in text
    assert "t-other-test-0a1b2c" in text
