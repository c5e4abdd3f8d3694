"""Captures scenarios in which a pod does not run: sets each up on a running lab and saves a snapshot of the cluster.

    python -m scripts.scenarios.capture --list
    kailab up -f scripts/scenarios/lab.yaml     # with --set kai.version=0.9.8 for scenarios of older versions
    python -m scripts.scenarios.capture --name captures     # what is missing and can share the lab
    python -m scripts.scenarios.capture --name captures --exclusive     # what is missing and needs the whole lab
    python -m scripts.scenarios.capture --name captures --only queue-unknown --only crash-loop     # again

Each scenario has a namespace of its own. When ``kailab explain`` reports the expected rule, the snapshot is written to
``tests/data/scenarios/NAME.json.gz`` and the scenario is removed. Exit code 1: a scenario did not come about.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError, WaitTimeout
from lab.explain import Explanation, LabSnapshot, explained
from lab.kube import OWNER_LABEL
from lab.objects.views import NodeView
from lab.operations.explain import read
from lab.pytest_plugin.fixtures import kai_lacks
from lab.serialization import to_json
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import take
from lab.snapshot.node_info import node_infos
from scripts.scenarios.catalogue import SCENARIOS
from scripts.scenarios.cluster_changes import ClusterChange
from scripts.scenarios.model import NO_KAI, Scenario, Setting
from scripts.trim_snapshot import trimmed

if TYPE_CHECKING:
    from lab.kube import Cluster

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "scenarios"
SECONDS = 180.0

Json = dict[str, Any]


class Capture:
    """Sets up one scenario and captures it."""

    def __init__(self, lab: Lab, scenario: Scenario, setting: Setting) -> None:
        self.lab = lab
        self.scenario = scenario
        self.setting = setting
        self.tenant = next((t.name for t in lab.tenants if t.mode == scenario.tenant), "")
        self.cluster: Cluster = lab.tenant(self.tenant) if self.tenant else lab.cluster
        self.space = f"s-{scenario.name}"

    def capture(self, folder: Path) -> Path:
        """Set the scenario up, wait for the expected explanation, write the snapshot, and remove the scenario."""
        with ExitStack() as undo:
            self._clear(wait=SECONDS)
            for change in self.scenario.changes:
                self._change(change, undo)
            undo.callback(self._clear)
            labels = {**self.scenario.labels, OWNER_LABEL: self.lab.spec.name}
            self.cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space, "labels": labels}}
            )
            what = f"ServiceAccount of {self.space}"
            self.cluster.wait("ServiceAccount", bool, namespace=self.space, timeout=SECONDS, what=what)
            if self.tenant:
                inside = self.scenario.inside(self.setting)
                for doc in inside:
                    undo.callback(self.cluster.delete, doc["kind"], doc["metadata"]["name"], wait=SECONDS)
                self.cluster.apply(inside, retry=SECONDS)
            first = self.scenario.first(self.setting)
            self._make(first)
            holders = [doc["metadata"]["name"] for doc in first if doc["kind"] == "Pod"]
            self.cluster.wait_ready("Pod", holders, self.space, timeout=SECONDS)
            time.sleep(self.scenario.settle)
            self._make(self.scenario.docs(self.setting))
            for change in self.scenario.then:
                self._change(change, undo)
            snapshot, explanation = self._await()
            return self._write(folder, snapshot, explanation)

    def _change(self, change: ClusterChange, undo: ExitStack) -> None:
        undo.callback(change.undo, self.lab.cluster)
        change.do(self.lab.cluster)

    def _make(self, docs: list[Json]) -> None:
        for doc in docs:
            labels = {**(doc["metadata"].get("labels") or {}), OWNER_LABEL: self.lab.spec.name}
            meta = {**doc["metadata"], "labels": labels}
            cluster = self._cluster_of(doc)
            if cluster.kinds.of(doc).namespaced:
                meta.setdefault("namespace", self.space)
            cluster.create({**doc, "metadata": meta})

    def _cluster_of(self, doc: Json) -> Cluster:
        """Return the cluster of an object: the lab's own for objects without, or of another namespace."""
        inside = self.lab.cluster.kinds.of(doc).namespaced and "namespace" not in doc["metadata"]
        return self.cluster if inside else self.lab.cluster

    def _await(self) -> tuple[LabSnapshot, Explanation]:
        """Look until the expected explanation holds. Raises WaitTimeout with the last one."""

        def look() -> tuple[LabSnapshot, Explanation]:
            snapshot = read(self.lab, self.tenant)
            return snapshot, explained(snapshot, self.scenario.subject, self.space, self.tenant)

        found = self.cluster.poll(
            look, until=lambda seen: self._as_expected(seen[1]), timeout=self.scenario.seconds, interval=1.0
        )
        if not self._as_expected(found[1]):
            what = f"kailab explain reports for {self.space}: {', '.join(self.scenario.rules) or 'nothing'}"
            messages = [f"{e.reason}: {e.message}" for e in found[0].host.events if e.namespace == self.space]
            raise WaitTimeout(what, evidence=[*found[1].lines(9), *messages[-8:]])
        return found

    def _as_expected(self, explanation: Explanation) -> bool:
        if not self.scenario.expects:
            return explanation.stage.value == "running" and not explanation.findings
        found = [finding.rule for finding in explanation.findings]
        return found[:1] == [self.scenario.expects] and self.scenario.rules <= set(found)

    def _write(self, folder: Path, snapshot: LabSnapshot, explanation: Explanation) -> Path:
        spaces = {self.space, *(f"vcluster-{t.name}" for t in snapshot.tenants if t.name == self.tenant)}
        data = {
            "name": self.scenario.name,
            "expects": self.scenario.expects,
            "subject": {"name": self.scenario.subject, "namespace": self.space, "tenant": self.tenant},
            "summary": explanation.summary,
            "facts": {key: self.lab.facts().get(key, "") for key in ("kai_version", "kubernetes", "gpu_mode")},
            "host": trimmed(snapshot.host, spaces),
            "tenants": [
                {"name": t.name, "own": t.own_scheduler, "world": trimmed(t.snapshot, spaces)}
                for t in snapshot.tenants
                if t.name == self.tenant
            ],
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.scenario.name}.json.gz"
        text = json.dumps(to_json(data), sort_keys=True, separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        return path

    def _clear(self, wait: float | None = None) -> None:
        """Delete everything, the pods first with a short grace period; ``wait``: seconds to wait for the namespace."""
        for kind in ("Deployment", "Job", "StatefulSet"):
            self.cluster.delete_all(kind, self.space)
        self.cluster.delete_all("Pod", self.space, grace=1)
        gone = f"pods of {self.space} are gone"
        self.cluster.wait("Pod", lambda pods: not pods, namespace=self.space, timeout=SECONDS, what=gone)
        self.cluster.delete("Namespace", self.space, wait=wait)
        for doc in reversed([*self.scenario.first(self.setting), *self.scenario.docs(self.setting)]):
            if (cluster := self._cluster_of(doc)) is self.lab.cluster and self._is_outside(doc):
                meta = doc["metadata"]
                cluster.delete(doc["kind"], meta["name"], meta.get("namespace"), wait=SECONDS)

    def _is_outside(self, doc: Json) -> bool:
        """Whether it outlives the scenario's namespace."""
        return not self.lab.cluster.kinds.of(doc).namespaced or "namespace" in doc["metadata"]


def setting_of(lab: Lab) -> Setting:
    """The lab's queues and GPUs."""
    nodes = [view for view in map(NodeView.of, lab.cluster.list("Node")) if view.gpus]
    infos = [info for info in node_infos(take(lab.cluster, kinds=("Node", "Pod"))) if info.node.gpus]
    parents = {queue.parent for queue in lab.spec.queues if queue.parent}
    leaves = [queue.name for queue in lab.spec.queues if queue.name not in parents]
    return Setting(
        queue=leaves[0] if leaves else "default-queue",
        parent=next(iter(sorted(parents)), ""),
        workers=len(nodes),
        gpus=min((view.gpus for view in nodes), default=0),
        memory=min((view.gpu_memory or 0 for view in nodes), default=0),
        worker=nodes[0].name if nodes else "",
        cpu=min((int(info.allocatable["cpu"]) for info in infos), default=0),
        ram=min((int(info.allocatable["memory"] // 2**20) for info in infos), default=0),
    )


def lacks(lab: Lab, scenario: Scenario, setting: Setting) -> str:
    """Why the lab does not fit a scenario; empty when it does."""
    for mode in {scenario.tenant, scenario.beside} - {"", *(tenant.mode for tenant in lab.tenants)}:
        return f"the lab has no tenant of mode {mode}"
    if scenario.kai == NO_KAI:
        return "the lab has KAI" if lab.has_kai else ""
    if why := kai_lacks(lab, scenario.kai):
        return why
    if not setting.gpus:
        return "the lab has no GPUs"
    return ""


def main() -> int:
    """Capture the requested scenarios; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="only this scenario; can be repeated")
    parser.add_argument("--exclusive", action="store_true", help="scenarios that need the whole lab")
    parser.add_argument("--list", action="store_true", help="list them; needs no lab")
    parser.add_argument("--name", help="which lab")
    parser.add_argument("--again", action="store_true", help="also scenarios that were captured before")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to")
    options = parser.parse_args()
    known = {scenario.name: scenario for scenario in SCENARIOS}
    if unknown := sorted(set(options.only or ()) - set(known)):
        parser.error(f"no such scenario: {', '.join(unknown)}")
    chosen = [known[name] for name in options.only or ()]
    chosen = chosen or [one for one in SCENARIOS if options.list or one.exclusive == options.exclusive]
    if not (options.only or options.list or options.again):
        chosen = [one for one in chosen if not (options.out / f"{one.name}.json.gz").exists()]
    if options.list:
        for one in chosen:
            where = f"{one.tenant or 'host':9} {'exclusive' if one.exclusive else '':9} {one.kai or one.beside}"
            print(f"{one.name:26} {one.expects or 'runs':28} {where}".rstrip())
        return 0
    lab = Lab.attach(options.name)
    setting = setting_of(lab)
    failed = 0
    for scenario in chosen:
        if why := lacks(lab, scenario, setting):
            print(f"skipped  {scenario.name}: {why}")
            continue
        start = time.monotonic()
        try:
            path = Capture(lab, scenario, setting).capture(options.out)
        except LabError as error:
            failed += 1
            print(f"FAILED   {scenario.name}: {error}", file=sys.stderr)
            continue
        print(f"captured {scenario.name}: {path.stat().st_size} bytes, {time.monotonic() - start:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
