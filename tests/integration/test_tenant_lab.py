"""A tenant with its own KAI beside KAI on the host: from the lab file to its suites, and its removal."""

from __future__ import annotations

import pytest

from lab.tools.process import HostRunner
from tests.integration.conftest import Cli, containers_of, lacking, run_suites

NAME = "it-tenants"
SUITES = ("tests/e2e/test_own_kai.py", "tests/e2e/test_isolation.py", "tests/e2e/test_tenant_access.py")
LAB = """
name: it-tenants
cluster: {workers: 2}
gpu: {mode: simulated, perNode: 2}
scheduler: auto
queues:
  - {name: default}
  - {name: test, parent: default}
tenants:
  - {name: team-own, mode: own-kai, kaiVersion: 0.16.8}
"""


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_own_kai_beside_the_hosts(cli: Cli, engine: HostRunner) -> None:
    file = cli.root / "lab.yaml"
    file.write_text(LAB)
    plan = cli("plan", "-f", str(file), "--json").json()
    if plan["missing"] or plan["facts"]["scheduler"] != "kai":
        lacking("kai", f"needs KAI 0.16.8: {plan['facts']['no_kai'] or ', '.join(plan['missing'][:1])}")
    cli.labs.append(NAME)
    up = cli("up", "-f", str(file), "--yes", "--json").json()
    assert up["ok"]
    assert cli("up", "-f", str(file), "--json").json()["changed"] == 0

    run_suites({**cli.env, "KAILAB_CHURN_ROUNDS": "3"}, NAME, *SUITES, "--lab-require", "kai", seconds=900)

    removed = cli("tenant", "remove", "team-own", "--yes", "--json").json()
    assert removed["left"] == []
    assert cli("tenant", "list", "--json").json() == []
    assert cli("status", "--json").json()["ok"]
    assert cli("down", "--json").json()["left"] == []
    assert containers_of(engine, NAME) == []
