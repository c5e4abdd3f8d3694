"""Every lint rule on a manifest that violates it, and none on valid manifests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lab.config import load_profile
from lab.errors import ManifestsRefused, SpecError
from lab.kai import line_of
from lab.lint import RULES, LintContext, lint, parse, refuse
from lab.lint.context import lint_context
from lab.steps.queues import queue_documents
from tests.support.lint_examples import (
    BROKEN,
    CHILD,
    CLOSED,
    DEPLOYMENT,
    KAI,
    MINIMUM,
    NEW,
    OLD,
    group,
    job,
    kubeflow,
    limits,
    note,
    pod,
    queue,
    ray,
    shares,
)


@pytest.mark.parametrize("name", RULES)
def test_each_rule_finds_its_fault(name: str) -> None:
    if name == "not-yaml":
        return  # test_reading.py
    text, setting = BROKEN[name]
    found = [one for one in lint(parse(text, "case.yaml"), setting) if one.rule == name]
    assert found
    for one in found:
        assert one.file == "case.yaml"
        assert one.line >= 1
        assert one.what
        assert one.next


WELL = {
    "cpu": (pod(), NEW),
    "whole": (pod(spec=f"{KAI}, runtimeClassName: nvidia", container=limits("1", "1")), NEW),
    "fraction": (pod(note('gpu-fraction: "0.5"')), NEW),
    "memory": (pod(note('gpu-memory: "2000"')), NEW),
    "not kai": ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n", NEW),
    "queues": (queue(shares()) + CHILD, NEW),
    "two levels": (queue(shares()) + CHILD, OLD),
    "deployment": (queue(shares()) + DEPLOYMENT.format(meta="", queue="q"), NEW),
    "ray": (ray(2, 3), NEW),
    "minimum of a PyTorchJob": (
        kubeflow("PyTorchJob", "pytorchReplicaSpecs", group("Worker"), MINIMUM.replace("9", "2")),
        NEW,
    ),
    "a Job with a PodGroup of its own": (
        job("parallelism: 4", ", annotations: {kai.scheduler/skip-podgrouper: 'true'}").replace(
            "kai.scheduler/queue", "q"
        ),
        NEW,
    ),
    "values of KAI's chart": ("global: {gpuSharing: true}\nbinder: {resources: {limits: {cpu: 1}}}\n", NEW),
    "a queue whose parent is in another file": (queue(f"parentQueue: elsewhere, {shares()}"), NEW),
    "a third level runs on 0.9.8": (
        queue(shares()) + CHILD + queue(f"parentQueue: child, {shares()}", name="grandchild"),
        replace(CLOSED, queues={}),
    ),
    "config map": ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b}\n", NEW),
}


@pytest.mark.parametrize("name", WELL)
def test_nothing_is_said_of_what_is_well(name: str) -> None:
    text, setting = WELL[name]
    assert [one.rule for one in lint(parse(text), setting)] == []


@pytest.mark.parametrize("profile", ["demo", "cpu", "minimal", "gpus"])
def test_nothing_is_said_of_the_labs_own_queues(profile: str) -> None:
    spec = load_profile(profile, ["gpu.mode=simulated"] if profile != "cpu" else [])
    text = yaml.safe_dump_all(queue_documents(spec))
    assert [one.rule for one in lint(parse(text), lint_context(spec))] == []


def test_lists_are_looked_into_and_lines_are_right() -> None:
    text = (
        "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n  spec:\n    schedulerName: kai\n    containers: []\n"
    )
    (found,) = (one for one in lint(parse(text), NEW) if one.rule == "scheduler-misspelt")
    assert (found.line, found.subject) == (6, "Pod a")


def test_a_share_without_a_map_is_refused_and_not_read_as_0() -> None:
    found = lint(parse(queue(shares(gpu="QueueResource"))), NEW)
    assert [(one.rule, one.line) for one in found] == [("queue-share-no-number", 4)]


def test_errors_refuse_and_warnings_do_not() -> None:
    refuse(lint(parse(BROKEN["queue-units"][0]), NEW))
    with pytest.raises(ManifestsRefused, match="admission refuses the pod") as refused:
        refuse(lint(parse(BROKEN["fraction-out-of-range"][0], "x.yaml"), NEW))
    assert refused.value.exit_code == 12
    assert any("x.yaml:3" in line for line in refused.value.evidence)


def test_bad_yaml_names_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"x.yaml:2:\d+: not valid YAML"):
        parse("a: 1\n b: [\n", "x.yaml")


@pytest.mark.parametrize("text", ["", "--- \n", "- 1\n- 2\n", "just text\n", "kind: Pod\n", "kind: Pod\nspec: 3\n"])
def test_odd_documents_are_no_trouble(text: str) -> None:
    lint(parse(text), NEW)


@pytest.mark.parametrize(("version", "warned"), [("0.17.0", True), ("0.18.3", False)])
def test_key_announced_for_a_newer_kai(version: str, warned: bool) -> None:
    text = pod(note('nvidia.com/container.c.gpu-memory.request: "2Gi"'))
    found = [one for one in lint(parse(text, "case.yaml"), LintContext(line_of(version))) if one.rule == "key-unknown"]
    assert [one.severity for one in found] == (["warning"] if warned else [])
    assert not found or "KAI 0.18 announces it" in found[0].what
