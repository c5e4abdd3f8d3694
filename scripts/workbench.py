"""Produces situations on a running lab, undoes them, and records what was seen in a file of tests/data."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config import TenantSpec
from lab.errors import LabError
from lab.invariants.model import Violation
from lab.kai.names import GPU_COUNT_LABEL, GPU_GROUP_LABEL, RESERVATION_APP
from lab.objects.isolation_labels import NODE_LABEL
from lab.objects.views import PodView
from lab.serialization import to_json
from lab.session.lab import Lab
from lab.steps.kai.step import NAMESPACE
from lab.text import without_colours
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import fraction_pod
from lab.workloads.temporary import owner_labels
from scripts.docs.examples import one_a_line
from scripts.scenarios.manifests import over
from tests.e2e.kai_components import pods, stopped

Json = dict[str, Any]
DATA = Path(__file__).parents[1] / "tests" / "data"
SECONDS = 120.0
EFFECT_SECONDS = 3.0
"""Until the API server applies a new policy or webhook."""


class Workbench:
    """A namespace on the lab's host, and changes that are undone at the end of the block."""

    def __init__(self, lab: Lab, slug: str) -> None:
        self.lab = lab
        self.cluster = lab.cluster
        self.undo = ExitStack()
        self._slug = slug
        self.host = self._open()
        self.space = self.host.namespace

    def _open(self, tenant: str = "") -> WorkloadNamespace:
        cluster = self.lab.tenant(tenant) if tenant else None
        labels = {} if tenant else self.lab.kai_serves
        opened = WorkloadNamespace.open(
            self.lab.spec.name, self.cluster, self._slug, tenant=tenant, cluster=cluster, labels=labels
        )
        self.undo.callback(opened.clear)
        return opened

    def tenant(self, mode: str) -> WorkloadNamespace:
        """A namespace in the first tenant of that mode."""
        return self._open(self.spec(mode).name)

    def spec(self, mode: str) -> TenantSpec:
        return next(tenant for tenant in self.lab.tenants if tenant.mode == mode)

    def node_of(self, mode: str) -> str:
        """The dedicated node of the first tenant of that mode."""
        (node, *_) = self.cluster.list("Node", labels=f"{NODE_LABEL}={self.spec(mode).name}")
        return str(node["metadata"]["name"])

    def run(self, *pods: Json) -> tuple[PodView, ...]:
        """Create pods and wait until they are Ready."""
        self.host.submit(*pods)
        return self.host.running(*(pod["metadata"]["name"] for pod in pods), timeout=SECONDS)

    def create(self, doc: Json) -> None:
        """Create an object that outlives the namespace."""
        labels = {**(doc["metadata"].get("labels") or {}), **owner_labels(self.lab.spec.name)}
        made = self.cluster.create({**doc, "metadata": {**doc["metadata"], "labels": labels}})["metadata"]
        self.undo.callback(self.cluster.delete, doc["kind"], made["name"], made.get("namespace"), wait=SECONDS)

    def edit(self, pod: PodView, **meta: Json) -> None:
        """Change labels or annotations of a pod."""
        self.cluster.patch("Pod", pod.name, {"metadata": meta}, pod.namespace)

    def stop(self, component: str) -> None:
        """Stop a component of the host's KAI."""
        self.undo.enter_context(stopped(self.lab, component))

    def log(self, component: str, *texts: str) -> list[str]:
        """Lines of the log of a component of the host's KAI that have all the texts."""
        return [
            line
            for pod in self.cluster.list("Pod", NAMESPACE, labels=pods(self.lab, component))
            for line in without_colours(self.cluster.logs(pod["metadata"]["name"], NAMESPACE)).splitlines()
            if all(text in line for text in texts)
        ]

    def reservation(self, pod: PodView) -> PodView:
        """The reservation pod of the GPU that a pod shares."""
        (group,) = pod.gpu_groups
        (found,) = self.cluster.list("Pod", RESERVATION_APP, labels=f"{GPU_GROUP_LABEL}={group}")
        return PodView.of(found)

    def two_gpus(self, *nodes: str) -> tuple[PodView, PodView]:
        """Two pods that share different GPUs, on these nodes."""
        pods = [fraction_pod(name, fraction=0.7) for name in ("train", "serve")]
        selectors = [{"kubernetes.io/hostname": node} for node in nodes]
        chosen = [over(pod, {"spec": {"nodeSelector": on}}) for pod, on in zip(pods, selectors, strict=False)]
        train, serve = self.run(*chosen, *pods[len(chosen) :])
        return train, serve


def workers(lab: Lab) -> list[str]:
    """Nodes with GPUs that no tenant has for itself."""
    nodes = [node["metadata"] for node in lab.cluster.list("Node")]
    return [
        str(meta["name"]) for meta in nodes if GPU_COUNT_LABEL in meta["labels"] and NODE_LABEL not in meta["labels"]
    ]


@dataclass(frozen=True)
class Seen:
    """What a situation looked like; its fields are those of an example (``lab.findings.Example``)."""

    what: str
    evidence: tuple[str, ...]
    input: str = ""
    """The message that users meet, where there is one."""

    @classmethod
    def of(cls, violation: Violation) -> Seen:
        """A violation that ``verify`` reports, without KAI's known defects: the page of a defect has its text, and what
        was broken by hand is not KAI's."""
        return cls(violation.what, tuple(line for line in violation.evidence if not line.startswith("known defect")))


Situation = Callable[[Workbench], Seen | None]
"""Produces it; None: it was not seen. The docstring says how, for readers of the example."""


def record(situations: Mapping[str, Situation], file: Path, about: str) -> int:
    """The program: produce the chosen situations one after the other; returns the exit code, 1 if one was not seen."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--only", action="append", choices=sorted(situations), metavar="ID", help="can be repeated")
    parser.add_argument("--name", help="which lab")
    parser.add_argument("--out", type=Path, default=file, help="file to update")
    options = parser.parse_args()
    lab = Lab.attach(options.name)
    facts = {key: lab.facts().get(key, "") for key in ("kai_version", "kubernetes")}
    missed = 0
    for name in options.only or situations:
        began, problem, seen = time.monotonic(), "not seen", None
        try:
            bench = Workbench(lab, name)
            with bench.undo:
                seen = situations[name](bench)
        except LabError as error:
            problem = str(error)
        if seen is None:
            missed += 1
            print(f"FAILED  {name}: {problem}", file=sys.stderr)
            continue
        known = json.loads(options.out.read_text()) if options.out.exists() else {}
        how = " ".join((situations[name].__doc__ or "").split())
        row = to_json({**facts, "how": how, "what": seen.what, "evidence": seen.evidence})
        given = {"input": seen.input} if seen.input else {}
        options.out.write_text(one_a_line({**known, name: {**row, **given}}), encoding="utf-8")
        print(f"seen    {name}: {seen.what} ({time.monotonic() - began:.0f} s)")
    return 1 if missed else 0
