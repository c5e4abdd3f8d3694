"""``kailab verify``: once, for a time, until quiet; its output and exit codes."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from lab.errors import ApiFailed, InvariantBroken, NoLab, SpecError, WaitTimeout
from lab.invariants import ALL, InvariantReport, Scope
from lab.invariants.scope import known_defects_of
from lab.invariants.verify import QUIET_LIMIT, verify
from lab.kube import Cluster
from lab.kube.informers import InformerEvent
from lab.operations.verify import scopes_of_lab
from lab.ui.verify import render_verify
from tests.support.explain_world import Scene
from tests.support.fake_lab import FakeLab
from tests.support.fakes import FakeClock
from tests.support.invariants_world import Script, listed, lists, news, node, reservation, share

HOST = Scope("", Cluster(Path("/lab/kubeconfig")))
FINE = [reservation(), share("a", 0.5), share("b", 0.5)]


def verified(clock: FakeClock, *steps: InformerEvent | float, **more: Any) -> InvariantReport:
    return verify([HOST], clock=clock, informers=Script(clock, *steps), **more)


def states(report: InvariantReport) -> dict[str, str]:
    return {result.invariant.id: result.state for result in report.results}


def test_invariants_hold_on_a_healthy_cluster(clock: FakeClock) -> None:
    report = verified(clock, *lists(*FINE))
    assert report.ok
    assert report.seconds < 1
    assert set(states(report).values()) == {"held", "not judged"}
    assert [name for name, state in states(report).items() if state == "not judged"] == [
        "tenant-own-pods",
        "tenant-no-host-kai",
        "tenant-own-groups",
    ]


def test_violation_without_grace_is_reported_at_once(clock: FakeClock) -> None:
    report = verified(clock, *lists(*FINE, share("c", 0.5)))
    assert states(report)["gpu-fractions"] == "broken"
    assert report.seconds < 1


def test_breach_is_watched_until_its_grace_period_ends(clock: FakeClock) -> None:
    counts: list[int] = []
    report = verified(clock, *lists(reservation()), settling=counts.append)
    assert states(report)["reservation-used"] == "broken"
    assert counts == [1]
    assert 30 < report.seconds < 32


def test_breach_that_clears_within_grace_is_no_violation(clock: FakeClock) -> None:
    report = verified(clock, *lists(reservation()), 10.0, news("DELETED", reservation()))
    assert report.ok
    assert report.seconds < 12


def test_watching_for_a_time_finds_transient_violations(clock: FakeClock) -> None:
    late = share("late", 0.5)
    steps = [*lists(*FINE), 5.0, news("ADDED", late), news("DELETED", late)]
    assert verified(FakeClock(), *steps).ok
    report = verified(clock, *steps, seconds=20)
    assert states(report)["gpu-fractions"] == "broken"
    assert 20 <= report.seconds < 22


def test_until_quiet_ends_when_changes_stop(clock: FakeClock) -> None:
    storm: list[InformerEvent | float] = []
    for number in range(10):
        storm += [1.0, news("ADDED", share(f"p{number}", 0.01))]
    report = verified(clock, *lists(*FINE[:2]), *storm, until_quiet=True)
    assert report.quiet is True
    assert 15 <= report.seconds < 17


def test_until_quiet_gives_up_at_its_limit(clock: FakeClock) -> None:
    busy: list[InformerEvent | float] = []
    for _ in range(700):
        busy += [1.0, news("MODIFIED", share("a", 0.5))]
    report = verified(clock, *lists(*FINE), *busy, until_quiet=True)
    assert report.quiet is False
    assert QUIET_LIMIT <= report.seconds < QUIET_LIMIT + 2
    report = verified(FakeClock(), *lists(*FINE), *busy, until_quiet=True, seconds=30)
    assert report.quiet is False
    assert report.seconds < 32


def test_no_evaluated_invariant_is_an_error(clock: FakeClock) -> None:
    with pytest.raises(ApiFailed, match="no invariant could be evaluated") as caught:
        verified(clock, InformerEvent("/", "Pod", trouble="Connection refused"))
    assert "Pod: Connection refused" in caught.value.evidence


def test_what_does_not_answer_is_not_proven_what_does_not_exist_is(clock: FakeClock) -> None:
    refused = InformerEvent("/", "BindRequest", refused="forbidden")
    steps = [step for step in lists(*FINE) if not (isinstance(step, InformerEvent) and step.kind == "BindRequest")]
    report = verified(clock, *steps, refused)
    assert report.ok
    assert report.unread
    assert all(line.endswith("BindRequest: forbidden") for line in report.unread)
    assert "lab demo: not proven: " in rendered(report)
    absent = InformerEvent("/", "BindRequest", absent=True)
    assert verified(FakeClock(), *steps, absent).unread == ()


def test_scopes_of_a_lab_are_the_host_and_own_kai_tenants() -> None:
    lab = FakeLab()
    (host,) = scopes_of_lab(lab)  # type: ignore[arg-type]
    assert (host.name, set(host.tenants), host.kai_version) == ("", {"ml", "ops", "research"}, "0.16.8")
    assert host.own_kai == frozenset()
    ops = lab.spec.tenants[1].model_copy(update={"mode": "own-kai", "kai_version": "0.9.8"})
    lab.spec = lab.spec.model_copy(update={"tenants": (lab.spec.tenants[0], ops)})
    host, own = scopes_of_lab(lab)  # type: ignore[arg-type]
    assert (own.name, own.kai_version, own.cluster) == ("ops", "0.9.8", lab.tenant("ops"))
    assert host.own_kai == {"ops"}


def test_known_defects_depend_on_the_kai_version() -> None:
    assert "#2153" in known_defects_of("0.17.0")["over-packed-burst"]
    assert "double-reservation" in known_defects_of("0.9.19")
    assert "double-reservation" not in known_defects_of("0.9.20")
    assert known_defects_of("") == known_defects_of("latest") == {}


def rendered(report: InvariantReport, encoding: str = "utf-8") -> str:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    render_verify(report, "lab demo", Console(file=out, width=200, highlight=False))
    out.seek(0)
    return out.read()


def test_table_lists_every_invariant(clock: FakeClock) -> None:
    text = rendered(verified(clock, *lists(*FINE, share("c", 0.5))))
    assert "lab demo: broken" in text
    assert "✗  gpu-fractions" in text
    assert "the shares of GPU GPU-1 of w1 add up to 1.5 GPUs (0.5 + 0.5 + 0.5)" in text
    assert "pod t/c: Running, on w1, requests 0.5 of 1 GPU, GPU group g1" in text
    assert "-  tenant-own-pods" in text
    assert "no tenants are given" in text
    assert f"{len(ALL) - 4} held, 1 broken, 3 not judged" in text


def test_table_truncates_violations_and_shows_watch_gaps(clock: FakeClock) -> None:
    late = share("late", 0.9)
    storm: list[InformerEvent | float] = []
    for _ in range(7):
        storm += [1.0, news("ADDED", late), 1.0, news("DELETED", late)]
    trouble = InformerEvent("/", "Pod", trouble="reset by peer")
    text = rendered(verified(clock, *lists(*FINE), trouble, *storm, seconds=30), "ascii")
    assert "and 2 more" in text
    assert "! gap in the watch:" in text
    assert "x  gpu-fractions" in text


class FakeVerify:
    """Replaces ``verify``: records its arguments and returns a given report."""

    def __init__(self, report: InvariantReport) -> None:
        self.report = report
        self.arguments: dict[str, Any] = {}

    def __call__(self, scopes: tuple[Scope, ...], **options: Any) -> InvariantReport:
        self.arguments = {"scopes": scopes, **options}
        return self.report


def invoke(monkeypatch: pytest.MonkeyPatch, fake: FakeVerify, *args: str) -> Any:
    from lab.cli.verify import verify as command

    lab = FakeLab()
    lab.session = SimpleNamespace(cancel=threading.Event())  # type: ignore[attr-defined]

    def attach(name: str | None = None) -> FakeLab:
        if name not in (None, "demo"):
            raise NoLab(f"no lab {name}")
        return lab

    monkeypatch.setattr("lab.session.lab.Lab.attach", attach)
    monkeypatch.setattr("lab.cli.verify.judge", fake)
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def good(clock: FakeClock) -> FakeVerify:
    return FakeVerify(verified(clock, *lists(*FINE)))


@pytest.fixture
def bad(clock: FakeClock) -> FakeVerify:
    return FakeVerify(verified(clock, *lists(*FINE, share("c", 0.5))))


def test_command_verifies_the_lab(monkeypatch: pytest.MonkeyPatch, good: FakeVerify) -> None:
    result = invoke(monkeypatch, good, "--for", "5")
    assert result.exit_code == 0
    assert "lab demo: all checked invariants hold" in result.stdout
    assert good.arguments["seconds"] == 5
    assert [scope.name for scope in good.arguments["scopes"]] == [""]


def test_command_exits_with_13_on_a_violation(monkeypatch: pytest.MonkeyPatch, bad: FakeVerify) -> None:
    result = invoke(monkeypatch, bad)
    assert isinstance(result.exception, InvariantBroken)
    assert result.exception.exit_code == 13
    assert "gpu-fractions" in result.exception.what
    assert invoke(monkeypatch, bad, "--json").exit_code == 13


def test_json_output_is_the_report(monkeypatch: pytest.MonkeyPatch, bad: FakeVerify) -> None:
    data = json.loads(invoke(monkeypatch, bad, "--json").stdout)
    assert (data["schemaVersion"], data["ok"]) == (1, False)
    rows = {row["id"]: row for row in data["invariants"]}
    assert len(rows) == len(ALL)
    assert rows["gpu-fractions"]["findings"][0]["evidence"]
    assert rows["tenant-own-pods"]["why"] == "no tenants are given"
    assert rows["reservation-used"]["why_grace"]


def test_restless_cluster_is_a_timeout(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    busy = [step for _ in range(40) for step in (1.0, news("MODIFIED", share("a", 0.5)))]
    fake = FakeVerify(verified(clock, *lists(*FINE), *busy, until_quiet=True, seconds=20))
    result = invoke(monkeypatch, fake, "--until-quiet", "--for", "20")
    assert isinstance(result.exception, WaitTimeout)
    assert invoke(monkeypatch, fake, "--until-quiet", "--json").exit_code == WaitTimeout.exit_code


def test_kubeconfig_selects_the_cluster(monkeypatch: pytest.MonkeyPatch, good: FakeVerify, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    result = invoke(monkeypatch, good, "--kubeconfig", str(file), "--context", "prod")
    assert result.exit_code == 0
    assert "prod: all checked invariants hold" in result.stdout
    (scope,) = good.arguments["scopes"]
    assert (scope.cluster.kubeconfig, scope.cluster.context) == (file, "prod")


@pytest.mark.parametrize(("version", "stated"), [("0.99.0", True), ("0.16.8", False)])
def test_a_newer_kai_of_any_cluster_is_stated_once(
    monkeypatch: pytest.MonkeyPatch, good: FakeVerify, tmp_path: Path, version: str, stated: bool
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    monkeypatch.setattr("lab.cli.verify.take", lambda *_, **__: Scene(version).world)
    result = invoke(monkeypatch, good, "--kubeconfig", str(file))
    (scope,) = good.arguments["scopes"]
    assert scope.kai_version == version
    assert result.stderr.count("newer than all releases that kailab knows") == stated


@pytest.mark.parametrize(
    "args", [("--context", "c"), ("--kubeconfig", "/nowhere"), ("--kubeconfig", "/dev/null", "--name", "demo")]
)
def test_invalid_options(monkeypatch: pytest.MonkeyPatch, good: FakeVerify, args: tuple[str, ...]) -> None:
    assert isinstance(invoke(monkeypatch, good, *args).exception, SpecError)


def test_verify_waits_for_a_late_kind(clock: FakeClock) -> None:
    steps = [item for item in lists(*FINE, share("c", 0.9)) if item.kind != "Node"]
    report = verified(clock, *steps, 5.0, listed("Node", node()))
    assert states(report)["gpu-fractions"] == "broken"
