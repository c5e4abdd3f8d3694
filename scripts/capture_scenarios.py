"""Makes situations in which a pod does not run, on a lab that is up, and keeps what the cluster looked like.

    python -m scripts.capture_scenarios --list
    python -m scripts.capture_scenarios                     # all that can share the lab
    python -m scripts.capture_scenarios --alone             # those that need the lab for themselves
    python -m scripts.capture_scenarios --only queue-unknown --only crash-loop

Each is made in a namespace of its own, waited for until ``lab explain`` says what it must say, written to
``tests/data/scenarios/NAME.json.gz``, and taken away again. Exit code 1 when one did not come about.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError, WaitTimeout
from lab.explain import Explanation, LabSnapshot, explained
from lab.kube import OWNER_LABEL
from lab.objects.views import NodeView
from lab.operations.explain import read
from lab.serialization import to_json
from lab.session.lab import Lab
from lab.snapshot.capture import log_tails
from scripts.scenarios import SITUATIONS, Setting, Situation
from scripts.trim_snapshot import trimmed

if TYPE_CHECKING:
    from lab.kube import Cluster

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "scenarios"
SUBJECT = "p"
SECONDS = 180.0

Json = dict[str, Any]


class Stage:
    """One situation in the making."""

    def __init__(self, lab: Lab, situation: Situation, setting: Setting) -> None:
        self.lab = lab
        self.situation = situation
        self.setting = setting
        self.tenant = next((t.name for t in lab.tenants if t.mode == situation.tenant), "")
        self.cluster: Cluster = lab.tenant(self.tenant) if self.tenant else lab.cluster
        self.space = f"s-{situation.name}"

    def capture(self, folder: Path) -> Path:
        """Make it, wait for it, write it, take it away."""
        with ExitStack() as undo:
            for step in self.situation.steps:
                undo.callback(step.undo, self.lab.cluster)
                step.do(self.lab.cluster)
            undo.callback(self._clear)
            self._clear(wait=SECONDS)
            labels = {**self.situation.labels, OWNER_LABEL: self.lab.spec.name}
            self.cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.space, "labels": labels}}
            )
            first = self.situation.first(self.setting)
            self._make(first)
            holders = [doc["metadata"]["name"] for doc in first if doc["kind"] == "Pod"]
            self.cluster.wait_ready("Pod", holders, self.space, timeout=SECONDS)
            self._make(self.situation.docs(self.setting))
            worlds, told = self._await()
            return self._write(folder, worlds, told)

    def _make(self, docs: list[Json]) -> None:
        for doc in docs:
            labels = {**(doc["metadata"].get("labels") or {}), OWNER_LABEL: self.lab.spec.name}
            meta = {**doc["metadata"], "labels": labels}
            cluster = self.lab.cluster if doc["kind"] in ("Queue", "RuntimeClass") else self.cluster
            if cluster.kinds.of(doc).namespaced:
                meta["namespace"] = self.space
            cluster.create({**doc, "metadata": meta})

    def _await(self) -> tuple[LabSnapshot, Explanation]:
        """Wait until the explanation is the expected one; looked at whenever something is told of the namespace."""
        seen: list[tuple[LabSnapshot, Explanation]] = []

        def holds(_: list[Json]) -> bool:
            worlds = read(self.lab, self.tenant, logs=False)
            told = explained(worlds, SUBJECT, self.space, self.tenant)
            seen[:] = [(worlds, told)]
            return self._as_expected(told)

        expects = self.situation.expects or "nothing, the pod is well"
        try:
            self.cluster.wait(
                self.situation.watch,
                holds,
                namespace=self.space,
                timeout=SECONDS,
                what=f"lab explain says of {self.space}/{SUBJECT}: {expects}",
            )
        except WaitTimeout as error:
            # What came about without an event is found by one more look.
            if not holds([]):
                said = "\n".join(seen[0][1].lines()) if seen else "nothing"
                raise WaitTimeout(error.what, evidence=[*said.splitlines(), *error.evidence], fix=error.fix) from error
        worlds, told = seen[0]
        logs = log_tails(self.lab.cluster, worlds.host.of("Pod"))
        return replace(worlds, host=replace(worlds.host, logs=logs)), told

    def _as_expected(self, told: Explanation) -> bool:
        if not self.situation.expects:
            return told.stage.value == "running" and not told.findings
        return bool(told.findings) and told.findings[0].rule == self.situation.expects

    def _write(self, folder: Path, worlds: LabSnapshot, told: Explanation) -> Path:
        spaces = {self.space, *(f"vcluster-{t.name}" for t in worlds.tenants if t.name == self.tenant)}
        data = {
            "name": self.situation.name,
            "expects": self.situation.expects,
            "subject": {"name": SUBJECT, "namespace": self.space, "tenant": self.tenant},
            "summary": told.summary,
            "facts": {key: self.lab.facts().get(key, "") for key in ("kai_version", "kubernetes", "gpu_mode")},
            "host": trimmed(worlds.host, spaces),
            "tenants": [
                {"name": t.name, "own": t.own_scheduler, "world": trimmed(t.snapshot, spaces)}
                for t in worlds.tenants
                if t.name == self.tenant
            ],
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.situation.name}.json.gz"
        text = json.dumps(to_json(data), sort_keys=True, separators=(",", ":"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        return path

    def _clear(self, wait: float | None = None) -> None:
        """Take everything away again; the pods first, with a short grace. ``wait`` also for the namespace's end."""
        for kind in ("Deployment", "Job"):
            self.cluster.delete_all(kind, self.space)
        self.cluster.delete_all("Pod", self.space, grace=1)
        gone = f"pods of {self.space} are gone"
        self.cluster.wait("Pod", lambda pods: not pods, namespace=self.space, timeout=SECONDS, what=gone)
        self.cluster.delete("Namespace", self.space, wait=wait)
        for doc in [*self.situation.first(self.setting), *self.situation.docs(self.setting)]:
            if doc["kind"] in ("Queue", "RuntimeClass"):
                self.lab.cluster.delete(doc["kind"], doc["metadata"]["name"], wait=SECONDS)


def setting_of(lab: Lab) -> Setting:
    """What the lab has."""
    nodes = [view for view in map(NodeView.of, lab.cluster.list("Node")) if view.gpus]
    parents = {queue.parent for queue in lab.spec.queues if queue.parent}
    leaves = [queue.name for queue in lab.spec.queues if queue.name not in parents]
    return Setting(
        queue=leaves[0] if leaves else "default-queue",
        parent=next(iter(sorted(parents)), ""),
        workers=len(nodes),
        gpus=min((view.gpus for view in nodes), default=0),
        memory=min((view.gpu_memory or 0 for view in nodes), default=0),
    )


def lacks(lab: Lab, situation: Situation, setting: Setting) -> str:
    """Why the lab cannot serve a situation; empty when it can."""
    if situation.tenant and situation.tenant not in {tenant.mode for tenant in lab.tenants}:
        return f"the lab has no tenant of mode {situation.tenant}"
    if not lab.has_kai:
        return "the lab has no KAI"
    if not setting.gpus:
        return "the lab has no GPUs"
    return ""


def main() -> int:
    """Capture what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="only this situation; can be repeated")
    parser.add_argument("--alone", action="store_true", help="those that need the lab for themselves")
    parser.add_argument("--list", action="store_true", help="list them; needs no lab")
    parser.add_argument("--name", help="which lab")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to")
    options = parser.parse_args()
    known = {situation.name: situation for situation in SITUATIONS}
    if unknown := sorted(set(options.only or ()) - set(known)):
        parser.error(f"no such situation: {', '.join(unknown)}")
    chosen = [known[name] for name in options.only or ()]
    chosen = chosen or [one for one in SITUATIONS if options.list or one.by_itself == options.alone]
    if options.list:
        for one in chosen:
            where = f"{one.tenant or 'host':9} {'alone' if one.by_itself else ''}"
            print(f"{one.name:26} {one.expects or 'well':28} {where}".rstrip())
        return 0
    lab = Lab.attach(options.name)
    setting = setting_of(lab)
    failed = 0
    for situation in chosen:
        if why := lacks(lab, situation, setting):
            print(f"skipped  {situation.name}: {why}")
            continue
        start = time.monotonic()
        try:
            path = Stage(lab, situation, setting).capture(options.out)
        except LabError as error:
            failed += 1
            print(f"FAILED   {situation.name}: {error}", file=sys.stderr)
            continue
        print(f"captured {situation.name}: {path.stat().st_size} bytes, {time.monotonic() - start:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
