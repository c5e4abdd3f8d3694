"""Explanations of recorded clusters in which a pod did not run (``scripts/scenarios/capture.py``)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lab.explain import LabSnapshot, PodStage, TenantSnapshot, all_rules, explain, explained
from lab.objects.synced import MANAGED_BY_LABEL
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.workloads.pods import cpu_pod
from scripts.scenarios import catalogue
from scripts.scenarios.manifests import main
from scripts.scenarios.model import Setting

SCENARIOS = {one.name: one for one in catalogue.SCENARIOS}
FILES = sorted((Path(__file__).parents[2] / "data" / "scenarios").glob("*.json.gz"))


def load(path: Path) -> tuple[dict[str, Any], LabSnapshot]:
    data = json.loads(gzip.decompress(path.read_bytes()))
    tenants = tuple(TenantSnapshot(t["name"], ClusterSnapshot.from_json(t["world"]), t["own"]) for t in data["tenants"])
    return data, LabSnapshot(ClusterSnapshot.from_json(data["host"]), tenants)


def test_scenarios_were_captured() -> None:
    assert FILES, "run python -m scripts.scenarios.capture on a lab with KAI, and again with --exclusive"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_the_reason_is_found(path: Path) -> None:
    data, worlds = load(path)
    subject = data["subject"]
    explanation = explained(worlds, subject["name"], subject["namespace"], subject["tenant"])
    if data["expects"]:
        assert explanation.findings[0].rule == data["expects"]
        assert explanation.findings[0].evidence or explanation.findings[0].what
        also = SCENARIOS[path.name.partition(".")[0]].rules
        assert also <= {finding.rule for finding in explanation.findings}
    else:
        assert (explanation.stage, explanation.findings) == (PodStage.RUNNING, ())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_pods_that_run_give_no_alarm(path: Path) -> None:
    data, worlds = load(path)
    for pod in worlds.host.pods:
        mine = pod.namespace == data["subject"]["namespace"] or MANAGED_BY_LABEL in pod.labels
        if pod.ready and not pod.deleting and not mine:
            assert explain(*worlds.cases(pod.name, pod.namespace)).findings == (), f"{pod.namespace}/{pod.name}"


def test_every_rule_is_captured_or_declared_read_only() -> None:
    captured = {rule for path in FILES for rule in SCENARIOS[path.name.partition(".")[0]].rules}
    read_only = {rule.id for rule in all_rules() if rule.read_only}
    assert captured & read_only == set(), "captured: drop read_only of these"
    assert {rule.id for rule in all_rules()} - captured == read_only, "neither captured nor declared read_only"
    assert not [rule.id for rule in all_rules() if rule.read_only == "not captured yet"]


def test_every_scenario_expects_a_rule_that_exists() -> None:
    names = [one.name for one in catalogue.SCENARIOS]
    assert len(set(names)) == len(names) >= 60
    assert {rule for one in catalogue.SCENARIOS for rule in one.rules} <= {rule.id for rule in all_rules()}
    assert {one.tenant for one in catalogue.SCENARIOS} == {"", "host-kai", "own-kai", "default"}
    assert {path.name.partition(".")[0] for path in FILES} <= set(names)


def test_every_scenario_makes_what_it_asks_about() -> None:
    setting = Setting(
        queue="test", parent="default", workers=2, gpus=2, memory=15360, worker="worker", cpu=2000, ram=4000
    )
    for one in catalogue.SCENARIOS:
        made = [*one.first(setting), *one.docs(setting)]
        assert [doc["metadata"]["name"] for doc in made].count(one.subject) == 1, one.name
        assert all(doc["apiVersion"] and doc["kind"] for doc in made)
        assert len({(doc["kind"], doc["metadata"]["name"]) for doc in made}) == len(made)


def test_a_scenario_changes_only_its_own_copy_of_a_manifest() -> None:
    plain = cpu_pod("p", queue="test")
    changed = main(plain, command=["x"])
    assert "x" not in plain["spec"]["containers"][0]["command"]
    assert changed["spec"]["containers"][0]["image"] == plain["spec"]["containers"][0]["image"]
