"""A real SIGKILL at effects of ``kailab up``, ``kailab down`` and tenant commands; repeated, they finish or roll back.

A few points in each run; KAILAB_LONG=1 kills at every kind of effect, and in a change of KAI of a tenant and the host.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.errors import NotProven
from lab.kube import Cluster
from lab.paths import LabPaths
from lab.steps.kai.step import NAMESPACE
from lab.tools.process import HostRunner
from tests.integration.conftest import Cli, containers_of
from tests.integration.kai_lines import bring_up, choice, two_lines
from tests.support.killed import Killable
from tests.support.lab_traces import traces_in, traces_on_machine

NAME = "it-kills"
UP = ("up", "--profile", "demo", "--name", NAME, "--yes", "--json")
TENANT = "team-own"
REMOVE = ("tenant", "remove", TENANT, "--yes", "--json")
CONFLICT = "PATCH Queue default"
"""In a change of a tenant's KAI: the new version runs, and the policy still denies pods that share a GPU."""

Traces = dict[str, frozenset[str]]


class Labs:
    """The demo lab, with a command that can be killed."""

    def __init__(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KAILAB_STATE", cli.env["KAILAB_STATE"])
        cli.labs.append(NAME)
        self.cli, self.killable = cli, Killable(cli.env, cli.root)
        self.paths = LabPaths(NAME)

    def require_kai(self) -> None:
        """Skip without KAI for the demo profile."""
        no_kai = self.cli("plan", *UP[1:5], "--json").json()["facts"]["no_kai"]
        if no_kai:
            pytest.skip(f"needs KAI: {no_kai}")

    def traces(self, tenant: str = "") -> Traces:
        """What is in the cluster, in a tenant and on this machine."""
        found = {"host": traces_in(Cluster(self.paths.kubeconfig)), "machine": traces_on_machine(self.paths)}
        if tenant:
            found[tenant] = traces_in(Cluster(self.paths.tenant_kubeconfig(tenant)))
        return found

    def is_whole(self) -> None:
        """Check that every step is ready, and that another ``kailab up`` changes nothing."""
        assert self.cli("status", "--json").json()["ok"]
        assert self.cli(*UP).json()["changed"] == 0


@pytest.fixture
def labs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Labs:
    return Labs(cli, monkeypatch)


def differences(before: Traces, after: Traces) -> dict[str, list[str]]:
    """What has come or gone, by cluster."""
    return {where: sorted(lines ^ after[where]) for where, lines in before.items() if lines != after[where]}


def added(version: str) -> tuple[str, ...]:
    return ("tenant", "add", TENANT, "--mode", "own-kai", "--kai", version, "--yes", "--json")


def changed(verb: str, *options: str) -> tuple[str, ...]:
    return ("tenant", verb, TENANT, *options, "--json")


@pytest.mark.timeout(1500)
def test_demo_lab_survives_kills(labs: Labs, engine: HostRunner) -> None:
    labs.require_kai()
    for point in ("PATCH Config kai-config", "in helm upgrade"):
        labs.killable.kill(point, *UP)
    labs.cli(*UP)
    labs.is_whole()
    demo = labs.traces()

    labs.killable.kill("PATCH Namespace default", *added("0.16.8"))
    labs.cli(*added("0.16.8"))
    assert labs.cli("tenant", "status", TENANT, "--json").json()[0]["ok"]
    labs.killable.kill("PATCH Config kai-config", *REMOVE)
    assert labs.cli(*REMOVE).json()["left"] == []
    assert differences(demo, labs.traces()) == {}

    labs.killable.kill("docker rm", "down", "--name", NAME)
    assert labs.cli("down", "--name", NAME, "--json").json()["left"] == []
    assert containers_of(engine, NAME) == []


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_killed_at_every_kind_of_effect(labs: Labs, engine: HostRunner) -> None:
    """Each verb in turn: up, tenant add, upgrade, rollback, remove, and down."""
    labs.require_kai()
    older, newer = two_lines()
    kill = labs.killable.kill_everywhere
    points = {"up": kill(*UP)}
    labs.is_whole()
    demo = labs.traces()

    points["add"] = kill(*added(older))
    labs.is_whole()
    before = labs.traces(TENANT)
    points["upgrade"] = kill(*changed("upgrade", "--kai", newer, "--no-suites"), code=NotProven.exit_code)
    points["rollback"] = kill(*changed("rollback", "--to", older))
    after = labs.traces(TENANT)
    assert after["host"] == before["host"]
    assert not [line for line in after[TENANT] if "kailab-" in line and line not in before[TENANT]]
    points["remove"] = kill(*REMOVE)
    labs.is_whole()
    assert differences(demo, labs.traces()) == {}

    points["down"] = kill("down", "--name", NAME)
    assert containers_of(engine, NAME) == []
    for verb, where in points.items():
        print(f"{verb}: {len(where)} kills: {', '.join(where)}")  # noqa: T201 - the table of a long run
    assert len(points["upgrade"]) > 15
    assert len(points["up"]) > 15


def repeated(labs: Labs) -> str:
    _, newer = two_lines()
    labs.cli(*changed("upgrade", "--kai", newer, "--no-suites"), code=NotProven.exit_code)
    return newer


def rolled_back(labs: Labs) -> str:
    older, _ = two_lines()
    labs.cli(*changed("rollback", "--to", older))
    return older


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_killed_change_of_kai_then(labs: Labs) -> None:
    """The repeated upgrade finishes, the rollback returns, and the removal removes."""
    labs.require_kai()
    older, newer = two_lines()
    labs.cli(*UP)
    demo = labs.traces()
    labs.cli(*added(older))
    finishes: tuple[Callable[[Labs], str], ...] = (rolled_back, repeated)
    for finish in finishes:
        labs.killable.kill(CONFLICT, *changed("upgrade", "--kai", newer, "--no-suites"))
        assert not labs.cli("tenant", "status", TENANT, "--json", code=None).json()[0]["ok"], "a killed change is seen"
        version = finish(labs)
        assert labs.cli("tenant", "status", TENANT, "--json").json()[0]["kai_version"] == version
        assert not [line for line in labs.traces(TENANT)[TENANT] if "kailab-" in line and not line.startswith("Node ")]
    labs.killable.kill(CONFLICT, *changed("rollback", "--to", older))
    assert labs.cli(*REMOVE).json()["left"] == []
    assert labs.traces() == demo


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_killed_change_of_the_hosts_kai(cli: Cli) -> None:
    """``kailab up`` with a newer line of KAI is killed at every kind of effect."""
    older, newer = two_lines()
    name = "it-kills-host"
    cli.labs.append(name)
    cluster = bring_up(cli, name, older, newer)
    up = ("up", "--profile", "minimal", "--name", name, "--yes", "--json", *choice(newer, older))
    points = Killable(cli.env, cli.root).kill_everywhere(*up)
    assert {"PATCH Config", "helm upgrade", "in helm upgrade"} <= set(points)
    assert cli("status", "--json").json()["ok"]
    assert cli(*up).json()["changed"] == 0
    releases = [line for line in traces_in(cluster) if line.startswith("Helm release")]
    assert releases == [f"Helm release {NAMESPACE}/kai-scheduler is deployed"]
    cluster.close()
