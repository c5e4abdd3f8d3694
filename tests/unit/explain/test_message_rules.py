"""Messages of components: one recorded text for every row of messages.toml and kubelet.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lab.explain import PodRule
from lab.explain.message_rules import message_rules, patterns
from tests.support.explain_world import SPACE, Scene, group, ids, meta, pod, request

NONE = "no nodes with enough resources were found: "
MESSAGES: dict[str, str] = tomllib.loads((Path(__file__).parents[2] / "data" / "explain_messages.toml").read_text())


def found(rule: PodRule) -> list[str]:
    """The rules that find something where a component reports the rule's text."""
    scene, text = Scene(), MESSAGES[rule.id]
    stream = min(patterns()[rule.id].streams)
    reason, _, message = text.partition("|")
    if rule.theme == "tenant":
        scene.event(scene.pending(), "SyncError", text, by="vcluster")
    elif stream == "refusals":
        template = {"spec": {"schedulerName": "kai-scheduler"}}
        job = {"kind": "Job", "metadata": meta("p", SPACE), "spec": {"template": template}}
        scene.add(job).event(job, "FailedCreate", f"Error creating: {text}", by="job-controller")
    elif stream == "verdicts":
        scene.pending(says=text)
    elif stream == "bind_errors":
        scene.pending(fraction=0.5)
        scene.add(request(phase="Failed", reason=text, selectedGPUGroups=["g"]))
    elif stream == "failure":
        scene.pending(node="worker-1", status={"phase": "Failed", "reason": reason, "message": message})
    elif reason.startswith("Failed"):
        made = scene.pending(node="worker-1", waiting="ContainerCreating")
        scene.event(made, reason, message, by="kubelet")
    else:
        scene.pending(node="worker-1", waiting=reason, message=message)
    return ids(scene.explain())


@pytest.mark.parametrize("rule", message_rules(), ids=lambda rule: rule.id)
def test_a_recorded_message_is_recognized(rule: PodRule) -> None:
    assert found(rule)[0] == rule.id


def test_every_row_has_a_text() -> None:
    assert set(MESSAGES) == {rule.id for rule in message_rules()}


def test_names_from_the_text_are_in_the_sentence() -> None:
    scene = Scene()
    made = scene.pending(node="worker-1", waiting="ContainerCreating")
    scene.event(made, "FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "key" not found', by="kubelet")
    (finding,) = scene.explain().findings
    assert finding.what == "Pod team/p needs the secret key, which team does not have"
    assert finding.evidence[0].startswith("event FailedMount (kubelet) at 11:59:55: MountVolume")


def test_failures_from_before_the_last_progress_are_outdated() -> None:
    scene = Scene()
    made = scene.pending(node="worker-1", waiting="ContainerCreating")
    scene.event(made, "FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "key" not found', ago=20)
    scene.event(made, "Started", "Started container main", type="Normal", ago=10)
    assert ids(scene.explain()) == ["container.starting"]


def test_messages_from_before_the_placement_are_outdated() -> None:
    scene = Scene()
    made = scene.pending()
    scene.event(made, "Unschedulable", NONE + "2 node(s) didn't match pod anti-affinity rules.", ago=20)
    scene.event(made, "Scheduled", "Successfully assigned", type="Normal", ago=10)
    assert "nodes.pod-affinity" not in ids(scene.explain())


def test_messages_about_the_group_count_for_all_its_pods() -> None:
    scene = Scene()
    text = (
        "Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled"
    )
    scene.add(group("g", minMember=2, refusals={"Unschedulable": text}))
    scene.add(pod("p", group="g"), pod("q", group="g"))
    assert ids(scene.explain())[0] == "gang.partly-fits"
    assert "there is room for 1 of 2" in scene.explain().findings[0].what
