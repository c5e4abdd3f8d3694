"""A pretended cluster for the GPU steps: a list of plain objects, and what a wait sees of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lab.errors import WaitTimeout

Json = dict[str, Any]


class FakeCluster:
    """Just enough of lab.kube.Cluster, over a list of objects; ``change`` runs when a wait looks."""

    def __init__(self) -> None:
        self.objects: list[Json] = []
        self.change: Callable[[], None] = lambda: None
        self.discovery = ""
        self.deleted: list[str] = []
        self.execs: list[tuple[str, tuple[str, ...]]] = []

    def get(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        return next((o for o in self.list(kind, namespace) if o["metadata"]["name"] == name), None)

    def list(self, kind: str, namespace: str | None = None, labels: str | None = None) -> list[Json]:
        key, _, value = (labels or "").partition("=")
        return [
            o
            for o in self.objects
            if o["kind"] == kind
            and namespace in (None, o["metadata"].get("namespace"))
            and (not key or (o["metadata"].get("labels") or {}).get(key) == value)
        ]

    def apply(self, docs: Sequence[Json]) -> None:
        for doc in docs:
            assert (doc["metadata"]["labels"])["kailab"] == "demo"
            self.objects = [
                o for o in self.objects if (o["kind"], o["metadata"]["name"]) != (doc["kind"], doc["metadata"]["name"])
            ]
            self.objects.append(doc)

    def patch(self, kind: str, name: str, patch: Json) -> None:
        labels = next(o for o in self.list(kind) if o["metadata"]["name"] == name)["metadata"]["labels"]
        for key, value in patch["metadata"]["labels"].items():
            labels.pop(key, None)
            if value is not None:
                labels[key] = value

    def wait(
        self,
        kind: str,
        predicate: Callable[[list[Json]], bool],
        *,
        what: str,
        timeout: float,
        namespace: str | None = None,
        labels: str | None = None,
        fail: Callable[[list[Json]], str | None] | None = None,
        hold: float = 0.0,
    ) -> list[Json]:
        self.change()
        seen = self.list(kind, namespace, labels)
        if predicate(seen):
            return seen
        raise WaitTimeout(f"{what}: {(fail(seen) if fail else None) or f'not within {timeout:g} s'}")

    def exec(self, pod: str, namespace: str, argv: Sequence[str], timeout: float = 30) -> str:
        self.execs.append((pod, tuple(argv)))
        return self.discovery

    def logs(self, pod: str, namespace: str, tail: int | None = None) -> str:
        return f"log of {pod}"

    def delete(
        self, kind: str, name: str, namespace: str | None = None, grace: int | None = None, wait: float | None = None
    ) -> None:
        self.deleted.append(f"{namespace}/{name}")
        self.objects = [
            o
            for o in self.objects
            if (o["kind"], o["metadata"]["name"], o["metadata"].get("namespace")) != (kind, name, namespace)
        ]


def make_node(name: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name, "labels": {}}, "status": {"allocatable": {}}}


def make_pod(name: str, phase: str = "Running", namespace: str = "default", **more: Any) -> Json:
    meta = {"name": name, "namespace": namespace, **more.pop("meta", {})}
    conditions = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": more.pop("spec", {}),
        "status": {"phase": phase, "conditions": conditions, **more},
    }
