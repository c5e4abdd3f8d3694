"""The program that judges findings by a cluster, with an API server that refuses certain kinds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.errors import ApiFailed
from lab.kai import line_of
from lab.lint import LintContext, parse
from lab.session.lab import Lab
from lab.workloads.namespace import WorkloadNamespace
from scripts.judge_findings import Judge, by_document
from tests.support.lint_examples import pod, queue, shares

Json = dict[str, Any]


class Server:
    """Refuses objects of some kinds; knows no kind of Kubeflow."""

    def __init__(self, *refuses: str) -> None:
        self.refuses, self.kinds, self.asked = refuses, self, [""]

    def of(self, doc: Json) -> SimpleNamespace:
        if "kubeflow" in doc["apiVersion"]:
            raise ApiFailed("no such kind")
        return SimpleNamespace(namespaced=doc["kind"] != "Queue")

    def apply(self, docs: list[Json], *, dry_run: bool) -> list[Json]:
        assert dry_run
        (doc,) = docs
        self.asked.append(doc["metadata"].get("namespace", ""))
        if doc["kind"] in self.refuses:
            raise ApiFailed(f"{doc['kind']} refused")
        return docs


def judged(server: Server, text: str) -> list[tuple[str, str, str]]:
    spec = SimpleNamespace(name="l", queues=())
    lab = cast("Lab", SimpleNamespace(spec=spec, cluster=server))
    judge = Judge(lab, cast("WorkloadNamespace", SimpleNamespace(namespace="t-judge")))
    pairs = by_document(parse(text), LintContext(line_of("0.16.8")))
    return [(row.rule, row.verdict, row.seen) for one, found in pairs for row in judge.rows(one, found)]


NO_RESOURCES = queue("priority: 1")


@pytest.mark.parametrize(
    ("refuses", "text", "expected"),
    [
        ("Queue", NO_RESOURCES, [("queue-without-resources", "true", "Queue refused")]),
        ("", NO_RESOURCES, [("queue-without-resources", "FALSE", "accepted")]),
        ("", queue(shares()), [("(none)", "true", "accepted")]),
        ("Pod", pod(), [("(none)", "unsaid", "Pod refused")]),
        ("", "apiVersion: kubeflow.org/v1\nkind: Unknown\nmetadata: {name: a}\nspec: {}\n", []),
    ],
)
def test_what_the_server_says_decides(refuses: str, text: str, expected: list[tuple[str, str, str]]) -> None:
    assert judged(Server(refuses), text) == expected


def test_objects_go_into_the_namespace_of_the_judge() -> None:
    server = Server()
    judged(server, pod().replace("name: p", "name: p, namespace: elsewhere"))
    assert set(server.asked) == {"", "t-judge"}


def test_admission_that_adds_a_class_disproves_the_finding() -> None:
    class Adding(Server):
        def apply(self, docs: list[Json], *, dry_run: bool) -> list[Json]:
            (doc,) = super().apply(docs, dry_run=dry_run)
            return [{**doc, "spec": {**doc["spec"], "runtimeClassName": "nvidia"}}]

    text = pod(container="resources: {limits: {nvidia.com/gpu: 1}}")
    rule = "whole-gpu-without-runtime-class"
    assert judged(Server(), text) == [(rule, "true", "admitted with runtimeClassName unset")]
    assert judged(Adding(), text) == [(rule, "FALSE", "admitted with runtimeClassName nvidia")]
