"""Facts about KAI's releases: the data against its fingerprints and source trees, and the program that derives it."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from lab.errors import SpecError
from lab.kai import facts
from lab.kai.model import release
from scripts.kai_facts.__main__ import grouped, trees
from scripts.kai_facts.go_source import GoSource
from scripts.kai_facts.keys import keys
from scripts.kai_facts.tree import facts_of

ROOT = Path(__file__).parents[3]
TREES = os.environ.get("KAILAB_KAI_TREES", "")


def test_all_releases_of_0_7_to_0_17_have_data() -> None:
    minors = {release(one)[1] for one in facts.releases()}
    assert minors == {7, 8, 9, 10, 12, 13, 14, 15, 16, 17}  # 0.11 was never released
    assert len(facts.releases()) == 97
    assert list(facts.releases()) == sorted(facts.releases(), key=release)


@pytest.mark.parametrize("version", facts.releases())
def test_data_has_the_recorded_fingerprint(version: str) -> None:
    found = {topic: facts.at(topic, version) for topic in facts.topics()}
    assert facts.fingerprint(found) == facts.recorded_fingerprint(version), "derive the data again, do not edit it"


def test_messages_are_those_of_rules_that_exist() -> None:
    rules = tomllib.loads((ROOT / "lab/explain/messages.toml").read_text())
    named = {rule for version in facts.releases() for rule in facts.at("messages", version)}
    assert named <= rules.keys(), "rules have changed: derive the data again"


@pytest.mark.skipif(not TREES, reason="KAILAB_KAI_TREES names no folder with KAI's source trees")
def test_data_is_what_the_source_trees_say() -> None:
    for version, path in trees(Path(TREES)).items():
        derived = facts_of(path)
        assert derived == {topic: facts.at(topic, version) for topic in facts.topics()}, version


@pytest.mark.parametrize(
    ("key", "on", "reader", "first", "last_without"),
    [
        ("kai.scheduler/preemption-delay", "annotation", "pod-grouper", "0.17.0", "0.16.8"),
        ("kai.scheduler/staleness-grace-period", "annotation", "pod-grouper", "0.17.0", "0.9.20"),
        ("kai.scheduler/task-priority", "label", "scheduler", "0.9.20", ""),
        ("kai.scheduler/topology", "annotation", "pod-grouper", "0.7.0", ""),
        ("kai.scheduler/segment-size", "annotation", "pod-grouper", "0.14.0", "0.9.20"),
        ("kai.scheduler/subgroup-name", "label", "scheduler", "0.7.11", "0.7.10"),
        ("gpu-fraction-container-name", "annotation", "binder", "0.10.0", "0.9.20"),
        ("kai.scheduler/queue", "label", "pod-grouper", "0.7.0", ""),
        ("gpu-fraction", "annotation", "binder", "0.7.0", ""),
    ],
)
def test_keys_have_readers_and_a_first_release(key: str, on: str, reader: str, first: str, last_without: str) -> None:
    found = facts.at("keys", first)[key]
    assert on in found["on"]
    assert reader in found["readers"]
    assert not last_without or key not in facts.at("keys", last_without)


def test_segment_topology_is_read_by_the_pod_grouper() -> None:
    for end in ("required", "preferred"):
        found = facts.at("keys", "0.17.0")[f"kai.scheduler/segment-topology-{end}-placement"]
        assert found["readers"] == ["pod-grouper"]


def test_a_version_without_data_has_the_facts_of_the_release_before_it() -> None:
    assert [facts.nearest(version) for version in ("0.16.9", "0.9.21", "0.11.0", "0.18.3", "0.9.4-rc.0")] == [
        "0.16.8",
        "0.9.20",
        "0.10.5",
        "0.17.0",
        "0.9.3",
    ]
    assert facts.at("keys", "0.18.3") == facts.at("keys", "0.17.0")
    with pytest.raises(SpecError, match=r"KAI 0\.6\.0 is older than all known releases"):
        facts.nearest("0.6.0")


def test_chart_values() -> None:
    assert facts.chart_values("0.17.0")["defaultQueue.childName"] == "default-queue"
    assert facts.has_value("0.17.0", "binder.runtimeClassName")
    assert facts.has_value("0.17.0", "global.nodeSelector.pool")  # inside a map
    assert facts.has_value("0.17.0", "global")
    assert not facts.has_value("0.17.0", "binder.resourceReservation.runtimeClassName")
    assert not facts.has_value("0.9.5", "global.resourceReservation.runtimeClassName")
    assert facts.has_value("0.9.6", "global.resourceReservation.runtimeClassName")


def test_plugins_actions_queues_and_webhooks() -> None:
    assert "topology" in facts.plugins("0.9.3")
    assert "topology" not in facts.plugins("0.7.0")
    assert "gpuspread" not in facts.plugins("0.17.0")
    actions = {name for name, on in facts.at("actions", "0.7.0").items() if on}
    assert actions == {"allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"}
    assert facts.at("queues", "0.17.0") == {"default-parent-queue": "", "default-queue": "default-parent-queue"}
    assert facts.at("queues", "0.9.20") == {}
    assert facts.at("webhooks", "0.9.20")["mutating-kai-admission"] == ["mutating"]


def test_support_is_what_the_newest_policy_states() -> None:
    assert facts.support("0.16.8") == facts.Support(
        "LTS", "Jun 2027", tuple(f"1.{minor}" for minor in range(28, 37)), facts.support("0.16.8").libraries
    )
    assert facts.support("0.14.7").kubernetes[0] == "1.31"
    assert facts.support("0.17.0").kubernetes[-1] == "1.36"
    assert facts.support("0.7.0") == facts.Support("", "", (), "1.32")


def test_ranges_follow_the_order_of_releases() -> None:
    order = ("0.9.0", "0.9.1", "0.10.0", "0.12.0")
    assert facts.as_ranges(["0.12.0", "0.9.1", "0.9.0"], order) == "0.9.0-0.9.1 0.12.0"


def test_a_value_that_changes_and_returns_has_two_ranges() -> None:
    derived = {"0.9.0": {"t": {"a": True}}, "0.9.1": {"t": {"a": 1}}, "0.9.2": {"t": {"a": True}}, "0.9.3": {"t": {}}}
    assert grouped(derived) == {"t": {"a": [("0.9.0 0.9.2", True), ("0.9.1", 1)]}}


def test_keys_are_derived_from_go_sources(tmp_path: Path) -> None:
    files = {
        "pkg/common/constants/c.go": 'package constants\nconst (\n\tOwn = "kai.scheduler/a"\n\tBare = "bare"\n)\n',
        "pkg/podgrouper/p.go": (
            'package podgrouper\nimport (\n\tc "github.com/NVIDIA/KAI-scheduler/pkg/common/constants"\n)\n'
            "func f() { x := pod.Annotations[c.Own]; // pod.Labels[c.Commented]\n pod.Labels[c.Bare] = x }\n"
        ),
        "pkg/binder/b_test.go": 'package binder\nvar x = pod.Labels["kai.scheduler/of-a-test"]\n',
        "pkg/scheduler/s.go": 'package scheduler\nvar x = pod.Labels["bare"] + ressources["nvidia.com/gpu"]\n',
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert keys(GoSource(tmp_path)) == {
        "kai.scheduler/a": {"on": ["annotation"], "readers": ["pod-grouper"], "writers": []},
        "bare": {"on": ["label"], "readers": ["scheduler"], "writers": ["pod-grouper"]},
    }


@pytest.mark.parametrize(
    ("key", "minor"),
    [
        ("nvidia.com/container.main.gpu-memory.request", "0.18"),
        ("nvidia.com/container.my.app.gpus.devices", "0.18"),
        ("kai.scheduler/container.main.gpu-memory.portion.limit", "0.18"),
        ("gpu-fraction.limit", "0.18"),
        ("nvidia.com/gpu.memory", ""),
        ("gpu-fraction", ""),
    ],
)
def test_announced_keys(key: str, minor: str) -> None:
    assert facts.announced(key) == minor
    assert not facts.having("keys", key) or not minor
