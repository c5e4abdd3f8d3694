"""Judge the findings of ``kailab lint`` in files by a running lab: apply what they are about, and see.

    python -m scripts.judge_findings --name LAB DIR...          # such as docs/ and examples/ of KAI's source
    python -m scripts.judge_findings --name LAB --json rows.json DIR...

Each object is applied as a server-side dry run, so that KAI's webhooks answer, too: it must be refused if a finding
says so, and accepted otherwise. For other findings a queue, pod or Job is really created in a namespace that goes
again. Kinds of other projects that the cluster does not have are left out, as are findings about Helm values. An object
that is refused although lint says nothing is "unsaid": often an example that lacks a part. Exit code 1: a finding
is false.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.errors import ApiFailed, LabError
from lab.findings import Finding
from lab.kai import line_of
from lab.lint import LintContext, Manifest, ManifestDocument, lint, read_all
from lab.lint.rules.structure import OWN_GROUPS
from lab.session.lab import Lab
from lab.steps.queues import KIND, TEST_LABEL
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod, gpu_pod
from lab.workloads.temporary import process_label
from tests.e2e.scheduling_decisions import decided, refusal

Json = dict[str, Any]
_SECONDS = 60.0
_REFUSED = ("queue-api",)
"""Rules about objects that the API server does not take, although their texts do not say "refuse"."""
TRUE, FALSE, UNTRIED, UNSAID = "true", "FALSE", "not tried", "unsaid"


@dataclass(frozen=True)
class Row:
    """A finding, or an object without one, and what the cluster says."""

    file: str
    line: int
    subject: str
    rule: str
    verdict: str
    seen: str


class Judge:
    """Judges the findings about one object after another."""

    def __init__(self, lab: Lab, space: WorkloadNamespace) -> None:
        self.lab, self.space, self.cluster = lab, space, lab.cluster
        self.parent = next((queue.parent for queue in lab.spec.queues if queue.parent), None)
        self.by_rule: dict[str, Callable[[Manifest, Finding], tuple[bool, str]]] = {
            "queue-limit-omitted": self._nothing_runs,
            "queue-weight-omitted": self._weight_is_zero,
            "quota-zero-not-preemptible": self._over_quota,
            "job-is-no-gang": self._no_gang,
            "whole-gpu-without-runtime-class": self._without_class,
        }

    def rows(self, manifest: Manifest, findings: Sequence[Finding]) -> Iterator[Row]:
        """Judge an object and its findings."""
        file, first, about = manifest.document.file, manifest.document.line(()), str(manifest)
        whole = bool(manifest.kind and manifest.api and manifest.meta.get("name")) and not manifest.document.problem
        message = self.refused(manifest.obj) if whole and self._known(manifest) else None
        named = [one for one in findings if "refuse" in one.what or one.rule in _REFUSED]
        if message and not named:
            yield Row(file, first, about, "(none)", UNSAID, message)
        elif message == "" and not findings:
            yield Row(file, first, about, "(none)", TRUE, "accepted")
        for one in findings:
            if one in named and message is not None:
                verdict, seen = bool(message), message or "accepted"
            elif one.rule in self.by_rule:
                verdict, seen = self.by_rule[one.rule](manifest, one)
            else:
                yield Row(file, one.line, about, one.rule, UNTRIED, one.what)
                continue
            yield Row(file, one.line, about, one.rule, TRUE if verdict else FALSE, seen)

    def _known(self, manifest: Manifest) -> bool:
        """Whether the cluster has the kind, or should have it because it is KAI's."""
        group = manifest.api.rpartition("/")[0]
        try:
            return group in OWN_GROUPS or "kai" in group or bool(self.cluster.kinds.of(manifest.obj))
        except ApiFailed:
            return False

    def refused(self, obj: Json) -> str:
        """Why the API server refuses the object; empty if it accepts it."""
        try:
            self.cluster.apply([self._placed(obj)], dry_run=True)
        except ApiFailed as error:
            return error.what
        return ""

    def _placed(self, obj: Json) -> Json:
        kept = {key: value for key, value in obj["metadata"].items() if key not in ("namespace", "uid")}
        try:
            inside = self.cluster.kinds.of(obj).namespaced
        except ApiFailed:
            inside = False
        return {**obj, "metadata": {**kept, **({"namespace": self.space.namespace} if inside else {})}}

    def _pod(self, manifest: Manifest) -> Json:
        """The pod template that a finding is about, as a pod."""
        pod = manifest.pod
        assert pod is not None, "rules about pods find something in pods only"
        labels = {**manifest.labels, **(pod.meta.get("labels") or {})}
        meta = {"name": "judged", "labels": labels, "annotations": pod.meta.get("annotations") or {}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod.spec}

    def _without_class(self, manifest: Manifest, _: Finding) -> tuple[bool, str]:
        """KAI's admission adds no RuntimeClass."""
        (pod,) = self.cluster.apply([self._placed(self._pod(manifest))], dry_run=True)
        found = pod["spec"].get("runtimeClassName")
        return not found, f"admitted with runtimeClassName {found or 'unset'}"

    def _weight_is_zero(self, manifest: Manifest, finding: Finding) -> tuple[bool, str]:
        """No default is added to the stored queue."""
        (queue,) = self.cluster.apply([self._placed(manifest.obj)], dry_run=True)
        found = queue["spec"]["resources"][finding.at[2]].get("overQuotaWeight", 0)
        return found == 0, f"stored with overQuotaWeight {found}"

    def _nothing_runs(self, manifest: Manifest, finding: Finding) -> tuple[bool, str]:
        """A pod that asks for the resource is refused in such a queue."""
        name, resource = f"judged-{self.space.namespace}", str(finding.at[2])
        spec = {**manifest.spec, "parentQueue": self.parent}
        labels = {TEST_LABEL: self.space.namespace, **process_label(self.lab.spec.name)}
        pod = gpu_pod("judged", queue=name) if resource == "gpu" else cpu_pod("judged", queue=name)
        asked = {"gpu": {}, "cpu": {"requests": {"cpu": "10m"}}, "memory": {"requests": {"memory": "10M"}}}[resource]
        container = {**pod["spec"]["containers"][0], **({"resources": asked} if asked else {})}
        self.cluster.apply([{**manifest.obj, "metadata": {"name": name, "labels": labels}, "spec": spec}])
        try:
            return self._decision({**pod, "spec": {**pod["spec"], "containers": [container]}}, "imit")
        finally:
            self.cluster.delete(KIND, name, wait=_SECONDS)

    def _over_quota(self, manifest: Manifest, _: Finding) -> tuple[bool, str]:
        """KAI refuses the pod for its queue's quota."""
        return self._decision(self._pod(manifest), "non-preemptible")

    def _decision(self, pod: Json, word: str) -> tuple[bool, str]:
        """Submit a pod; whether KAI refuses it with a message that contains a word, and the message."""
        self.space.submit(pod)
        try:
            (found,) = self.space.on_host(decided, "judged", timeout=_SECONDS, what="KAI decides")
        finally:
            self.space.remove("judged")
        message = refusal(found)
        return word.lower() in message.lower(), message or f"bound to {found.node}"

    def _no_gang(self, manifest: Manifest, _: Finding) -> tuple[bool, str]:
        """The PodGroup that KAI creates needs one pod only."""
        self.space.submit(manifest.obj)
        try:
            groups = self.cluster.wait(
                "PodGroup.scheduling.run.ai",
                bool,
                namespace=self.space.namespace,
                timeout=_SECONDS,
                what="KAI creates the PodGroup",
            )
        finally:
            self.space.empty(manifest.kind)
        least = [group["spec"].get("minMember") for group in groups]
        return all(one == 1 for one in least), f"minMember {', '.join(map(str, least))}"


def by_document(found: Sequence[ManifestDocument], ctx: LintContext) -> Iterator[tuple[Manifest, list[Finding]]]:
    """The objects of a file, each with its findings."""
    findings = lint(found, ctx)
    for document in found:
        after = [one.line(()) for one in found if one.line(()) > document.line(())]
        end = min(after, default=sys.maxsize)
        yield (
            Manifest(document.data if isinstance(document.data, dict) else {}, document),
            [one for one in findings if document.line(()) <= one.line < end],
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all findings in the files; exit code 1 if something is false."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="files and folders")
    parser.add_argument("--name", help="which lab")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args(arguments)
    lab = Lab.attach(options.name)
    ctx = LintContext(line_of(str(lab.kai_version)))
    space = WorkloadNamespace.open(lab.spec.name, lab.cluster, "judge")
    judge = Judge(lab, space)
    rows: list[Row] = []
    try:
        for path, found in itertools.groupby(read_all(options.folders, empty=True), key=lambda one: one.file):
            for manifest, findings in by_document(tuple(found), ctx):
                try:
                    rows += judge.rows(manifest, findings)
                except LabError as error:
                    at = manifest.document.line(())
                    rows.append(Row(path, at, str(manifest), "(error)", FALSE, error.what))
    finally:
        space.clear()
    for row in rows:
        if row.rule != "(none)" or row.verdict == UNSAID:
            print(f"{row.verdict:9} {row.rule:32} {row.file}:{row.line} {row.subject}: {row.seen}"[:300])
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in (TRUE, FALSE, UNTRIED, UNSAID)}
    print(f"KAI {lab.kai_version}: {counts}, {sum(row.rule == '(none)' for row in rows)} objects without a finding")
    return 1 if counts[FALSE] else 0


if __name__ == "__main__":
    sys.exit(main())
