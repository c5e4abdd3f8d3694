"""What components say: one real text for every row of messages.toml and kubelet.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lab.explain import PodRule
from lab.explain.message_rules import message_rules, patterns
from tests.support.explain_world import SPACE, Scene, group, ids, meta, pod, request

NONE = "no nodes with enough resources were found: "
SAID: dict[str, str] = tomllib.loads((Path(__file__).parents[2] / "data" / "explain_messages.toml").read_text())


def told(rule: PodRule) -> list[str]:
    """The rules that find something where a component says the rule's text."""
    scene, text = Scene(), SAID[rule.id]
    (stream,) = patterns()[rule.id].streams
    if stream == "refusals":
        template = {"spec": {"schedulerName": "kai-scheduler"}}
        job = {"kind": "Job", "metadata": meta("p", SPACE), "spec": {"template": template}}
        scene.add(job).event(job, "FailedCreate", f"Error creating: {text}", by="job-controller")
    elif stream == "verdicts":
        scene.pending(says=text)
    elif stream == "bind_errors":
        scene.pending(fraction=0.5)
        scene.add(request(phase="Failed", reason=text, selectedGPUGroups=["g"]))
    else:
        reason, _, message = text.partition("|")
        if reason.startswith("Failed"):
            made = scene.pending(node="worker-1", waiting="ContainerCreating")
            scene.event(made, reason, message, by="kubelet")
        else:
            scene.pending(node="worker-1", waiting=reason, message=message)
    return ids(scene.explain())


@pytest.mark.parametrize("rule", message_rules(), ids=lambda rule: rule.id)
def test_a_real_text_is_understood(rule: PodRule) -> None:
    assert told(rule)[0] == rule.id


def test_every_row_has_a_text() -> None:
    assert set(SAID) == {rule.id for rule in message_rules()}


def test_names_from_the_text_are_in_the_sentence() -> None:
    scene = Scene()
    made = scene.pending(node="worker-1", waiting="ContainerCreating")
    scene.event(made, "FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "key" not found', by="kubelet")
    (finding,) = scene.explain().findings
    assert finding.what == "Pod team/p needs the secret key, which team does not have"
    assert finding.evidence[0].startswith("event FailedMount (kubelet) at 11:59:55: MountVolume")


def test_what_failed_before_the_containers_got_further_is_over() -> None:
    scene = Scene()
    made = scene.pending(node="worker-1", waiting="ContainerCreating")
    scene.event(made, "FailedMount", 'MountVolume.SetUp failed for volume "v" : secret "key" not found', ago=20)
    scene.event(made, "Started", "Started container main", type="Normal", ago=10)
    assert ids(scene.explain()) == ["container.starting"]


def test_what_was_said_before_the_pod_was_placed_is_over() -> None:
    scene = Scene()
    made = scene.pending()
    scene.event(made, "Unschedulable", NONE + "2 node(s) didn't match pod anti-affinity rules.", ago=20)
    scene.event(made, "Scheduled", "Successfully assigned", type="Normal", ago=10)
    assert "nodes.pod-affinity" not in ids(scene.explain())


def test_what_a_group_member_hears_counts_for_all() -> None:
    scene = Scene()
    text = (
        "Resources were found for 1 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled"
    )
    scene.add(group("g", minMember=2, refusals={"Unschedulable": text}))
    scene.add(pod("p", group="g"), pod("q", group="g"))
    assert ids(scene.explain())[0] == "gang.partly-fits"
    assert "there is room for 1 of 2" in scene.explain().findings[0].what
