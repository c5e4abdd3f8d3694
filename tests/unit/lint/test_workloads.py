"""Every kind of workload: its pod templates are found, and findings have the line and the field."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lab.kai import line_of
from lab.lint import LintContext, lint, parse
from lab.lint.workloads import PodPath, kinds

NEW = LintContext(line_of("0.16.8"), gpu_sharing=True)
POD = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]}
PLACES = [(name, path) for name, kind in kinds().items() for path in kind.pods]


def put(obj: Any, at: str, value: Any) -> None:
    """Put a value at a dotted path, in which * is the first item of a list."""
    words = at.split(".")
    for word, after in zip(words, [*words[1:], ""], strict=True):
        below: Any = [] if after == "*" else {}
        if word == "*" and isinstance(obj, list):
            obj.append(value if not after else below)
            obj = obj[-1]
        elif not after:
            obj[word] = value
        else:
            obj = obj.setdefault(word, below)


def manifest(name: str, path: PodPath, annotations: dict[str, str]) -> str:
    kind, _, group = name.partition(".")
    obj: dict[str, Any] = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": {"name": "w"}}
    template = obj
    if path.at:
        template = {}
        put(obj, path.at, template)
    meta, spec = template, template
    for part in path.meta.split(".") if path.meta else ():
        meta = meta.setdefault(part, {})
    for part in path.spec.split(".") if path.spec else ():
        spec = spec.setdefault(part, {})
    meta["annotations"] = annotations
    spec.update(POD)
    return yaml.safe_dump(obj, sort_keys=False)


@pytest.mark.parametrize(("name", "path"), PLACES, ids=lambda value: value if isinstance(value, str) else value.at)
def test_a_wrong_fraction_is_found_in_each_template(name: str, path: PodPath) -> None:
    text = manifest(name, path, {"gpu-fraction": "1.5"})
    (found,) = [one for one in lint(parse(text), NEW) if one.rule == "fraction-out-of-range"]
    assert "gpu-fraction" in text.splitlines()[found.line - 1]
    assert found.at[-2:] == ("annotations", "gpu-fraction")
    assert not [
        one
        for one in lint(parse(manifest(name, path, {"gpu-fraction": "0.5"})), NEW)
        if one.rule in ("fraction-out-of-range", "share-without-kai")
    ]


def test_each_template_has_its_own_findings() -> None:
    template = "template: {metadata: {annotations: {gpu-fraction: '%s'}}, spec: {containers: [{name: c}]}}"
    head, workers = template % "2.5", template % "3.5"
    text = (
        f"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {{name: r}}\nspec:\n  headGroupSpec: {{{head}}}\n"
        f"  workerGroupSpecs:\n  - {{groupName: w, replicas: 1, {workers}}}\n"
    )
    found = [one for one in lint(parse(text), NEW) if one.rule == "fraction-out-of-range"]
    assert [(one.line, "2.5" in one.what, "3.5" in one.what) for one in found] == [(5, True, False), (7, False, True)]


def test_templates_of_unknown_kinds_are_found() -> None:
    text = (
        "apiVersion: example.com/v1\nkind: Trainer\nmetadata: {name: t}\nspec:\n  roles:\n"
        "  - podTemplate:\n      metadata:\n        annotations: {gpu-fraction: '2'}\n"
        "      spec: {containers: [{name: c}]}\n"
    )
    assert [(one.rule, one.line) for one in lint(parse(text), NEW)] == [
        ("fraction-out-of-range", 8),
        ("share-without-kai", 8),
    ]


def test_a_job_of_another_group_is_no_batch_job() -> None:
    text = "apiVersion: {}\nkind: Job\nmetadata: {{name: j}}\nspec: {{parallelism: 4, template: {{spec: {}}}}}\n"
    assert [
        "job-is-no-gang" in [one.rule for one in lint(parse(text.format(api, POD)), NEW)]
        for api in ("batch/v1", "batch.volcano.sh/v1alpha1")
    ] == [True, False]


@pytest.mark.parametrize(("version", "known"), [("0.12.23", False), ("0.13.4", True), ("0.16.8", True)])
def test_a_kind_that_this_kai_does_not_group(version: str, known: bool) -> None:
    text = manifest("JobSet.jobset.x-k8s.io", PodPath("spec.replicatedJobs.*.template.spec.template"), {})
    rules = [one.rule for one in lint(parse(text.replace("/v1", "/v1alpha2")), LintContext(line_of(version)))]
    assert ("not-a-gang-here" not in rules) == known


def test_the_queue_of_a_workload_is_where_kai_reads_it() -> None:
    text = (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: c}}\nspec: {{jobTemplate: {{metadata: {{labels: {}}},"
        " spec: {{template: {{spec: {}}}}}}}}}\n"
    )
    rules = [
        [one.rule for one in lint(parse(text.format(labels, POD)), NEW)]
        for labels in ("{}", "{kai.scheduler/queue: default-queue}")
    ]
    assert ["queue-missing" in found for found in rules] == [True, False]


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("CronJob.batch", False),
        ("Service.serving.knative.dev", False),
        ("Configuration.serving.knative.dev", True),
        ("CronWorkflow.argoproj.io", True),
        ("RayJob.ray.io", True),
    ],
)
def test_labels_that_kai_does_not_read(name: str, reads: bool) -> None:
    obj = yaml.safe_load(manifest(name, kinds()[name].pods[0], {}))
    obj["metadata"]["labels"] = {"kai.scheduler/queue": "q"}
    rules = [one.rule for one in lint(parse(yaml.safe_dump(obj)), NEW)]
    assert ("owner-labels-not-read" not in rules) == reads
