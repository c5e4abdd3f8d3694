"""Step ``queues``: KAI's Queue objects match the lab file, without KAI's defaults."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec, QueueResource, QueueSpec
from lab.engine.step import Effect, Observed, State
from lab.errors import ApiFailed, StepFailed
from lab.kai import line_of
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.ownership import refuse_foreign
from lab.kube.retry import retry
from lab.objects.fields import labels_of
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.workloads.temporary import process_label

KIND = "Queue.scheduling.run.ai"

TEST_LABEL = "kailab.dev/test"  # label of a test's queues; the queues of one tree have the same value

_WEBHOOK_SECONDS = 60.0
_GONE_SECONDS = 60.0


def queue_steps(spec: LabSpec) -> list[Queues]:
    """The step, if the lab has KAI."""
    return [Queues(spec)] if spec.scheduler == "kai" else []


def queue_documents(spec: LabSpec) -> list[dict[str, Any]]:
    """The Queue objects, parents before their children.

    They have quota, limit and weight of all three resources: KAI reads an omitted limit as 0, so that nothing runs, and
    refuses a queue without resources (docs/queues/README.md, KAI 0.17.0).
    """
    return [_document(queue, spec.name) for queue in parents_first(spec.queues)]


@contextmanager
def temporary_queues(
    cluster: Cluster, lab: str, queues: Iterable[QueueSpec], *, top: str = ""
) -> Iterator[dict[str, str]]:
    """Create queues for one test and delete them at the end, children first.

    Yields each queue's unique name in the cluster by its name in ``queues``. Other parents keep their names; queues
    without one are below ``top``, unless that is empty. The queues have ``TEST_LABEL``, the lab's label and that of
    this process, by which those of a killed test are found. Retries for a minute while KAI's webhooks do not
    answer or still see deleted children. Raises ApiFailed, WaitTimeout.
    """
    ordered = parents_first(queues)
    tree = secrets.token_hex(3)
    names = {queue.name: f"t-{queue.name}-{tree}" for queue in ordered}
    docs = []
    for queue in ordered:
        parent = names.get(queue.parent, queue.parent) if queue.parent else top or None
        renamed = queue.model_copy(update={"name": names[queue.name], "parent": parent})
        docs.append(_document(renamed, lab))
        docs[-1]["metadata"]["labels"] |= {TEST_LABEL: tree, **process_label(lab)}
    try:
        cluster.apply(docs, retry=_WEBHOOK_SECONDS)
        yield names
    finally:
        delete_queues(cluster, _by_name(docs))


def parents_first(queues: Iterable[QueueSpec]) -> list[QueueSpec]:
    """Queues by their depth in the tree, otherwise in order. The lab file's rules refuse cycles."""
    by_name = {queue.name: queue for queue in queues}

    def depth(queue: QueueSpec) -> int:
        parent = by_name.get(queue.parent or "")
        return 0 if parent is None else 1 + depth(parent)

    return sorted(by_name.values(), key=depth)


def _document(queue: QueueSpec, lab: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resources": {"cpu": _share(queue.cpu), "memory": _share(queue.memory), "gpu": _share(queue.gpu)}
    }
    if queue.parent is not None:
        spec["parentQueue"] = queue.parent
    if queue.priority is not None:
        spec["priority"] = queue.priority
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": queue.name, "labels": {OWNER_LABEL: lab}},
        "spec": spec,
    }


def _share(share: QueueResource) -> dict[str, float]:
    return {"quota": share.quota, "limit": share.limit, "overQuotaWeight": share.weight}


@dataclass(frozen=True)
class Queues(LabStep):
    """The lab file's queues."""

    spec: LabSpec
    needs: tuple[str, ...] = ("kai",)
    id: str = "queues"
    title: str = "Queues"

    def effects(self) -> tuple[Effect, ...]:
        children = {queue.name: queue.parent for queue in self.spec.queues}
        tree = [f"{name} (in {parent})" if parent else name for name, parent in children.items()]
        return (Effect("cluster", f"queues {', '.join(tree) or 'none'}", "kailab down"),)

    def creates(self, ctx: LabContext) -> tuple[dict[str, Any], ...]:
        return tuple(queue_documents(self.spec))

    def observe(self, ctx: LabContext) -> Observed:
        existing = _by_name(ctx.cluster().list(KIND))
        wanted = queue_documents(self.spec)
        lines = [line for doc in wanted for line in _differences(doc, existing.get(doc["metadata"]["name"]))]
        lines += [f"{name}: no longer in the lab file" for name in self._surplus(existing)]
        if not lines:
            return Observed.ready(f"{len(wanted)} queues")
        if wanted and not any(doc["metadata"]["name"] in existing for doc in wanted):
            return Observed.absent()
        return Observed.drifted("differ from the lab file", lines)

    def apply(self, ctx: LabContext) -> None:
        """Create, update and delete queues. Raises StepFailed if another owner's queue has one of the names."""
        cluster = ctx.cluster()
        existing = _by_name(cluster.list(KIND))
        wanted = _by_name(queue_documents(self.spec))
        # a lab file may name the chart's queues, which some charts create themselves
        default = line_of(self.spec.kai.version).default_queues if self.spec.kai.manage == "install" else ()
        claimed = [doc for name, doc in wanted.items() if name not in default]
        refuse_foreign(cluster, self.spec.name, claimed, fix="rename the lab's queue")
        cluster.apply(list(wanted.values()), retry=_WEBHOOK_SECONDS)
        delete_queues(cluster, {name: existing[name] for name in self._surplus(existing)})

    def verify(self, ctx: LabContext) -> None:
        seen = self.observe(ctx)
        if seen.state is not State.READY:
            show = ("get", "queues.scheduling.run.ai", "-o", "yaml", "--show-managed-fields")
            raise StepFailed(
                "the queues differ from what was applied: another client changes them",
                evidence=seen.diff,
                fix=f"find that client: {ctx.cluster().kubectl(*show)}",
            )

    def undo(self, ctx: LabContext) -> None:
        cluster = ctx.cluster()
        delete_queues(cluster, _by_name(cluster.list(KIND, labels=f"{OWNER_LABEL}={self.spec.name}")))

    def _surplus(self, existing: Mapping[str, dict[str, Any]]) -> list[str]:
        """Queues of this lab that its file no longer has; a test's queues are not the file's."""
        keep = {queue.name for queue in self.spec.queues}
        # the chart's own, which an earlier lab file may have named
        keep.update(line_of(self.spec.kai.version).default_queues)
        tests = {name for name, queue in existing.items() if TEST_LABEL in labels_of(queue["metadata"])}
        return [name for name in existing if name not in keep | tests and _owner(existing[name]) == self.spec.name]


def delete_queues(cluster: Cluster, queues: Mapping[str, dict[str, Any]], seconds: float = _WEBHOOK_SECONDS) -> None:
    """Delete queues, children first: KAI 0.14 and newer refuse to delete a queue that has children.

    KAI checks the parent's ``status.childQueues`` (queue_validator.go), which the queue controller updates shortly
    after a child's deletion. A refusal is therefore retried for ``seconds``.
    """
    left = dict(queues)
    while left:
        parents = {queue.get("spec", {}).get("parentQueue") for queue in left.values()}
        for name in [name for name in left if name not in parents] or list(left):
            delete = functools.partial(cluster.delete, KIND, name, wait=_GONE_SECONDS)
            retry(delete, when=_may_pass, timeout=seconds, interval=0.2, sleep=cluster.calls.pause)
            del left[name]


def _may_pass(error: ApiFailed) -> bool:
    """Whether KAI has not seen the deletion of a queue's children yet, or its webhook is starting."""
    return any(words in error.what for words in ("has child queues", "failed calling webhook"))


def _by_name(queues: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {queue["metadata"]["name"]: queue for queue in queues}


def _owner(queue: Mapping[str, Any]) -> str | None:
    return labels_of(queue["metadata"]).get(OWNER_LABEL)


def _differences(doc: dict[str, Any], existing: Mapping[str, Any] | None) -> list[str]:
    """Differences of an existing queue in the fields that the lab file sets, one line each."""
    name = doc["metadata"]["name"]
    if existing is None:
        return [f"{name}: missing"]
    have, want = existing.get("spec", {}), doc["spec"]
    lines = [] if _owner(existing) == _owner(doc) else [f"{name}: label {OWNER_LABEL} is {_owner(existing)}"]
    if have.get("parentQueue") != want.get("parentQueue"):
        lines.append(f"{name}: parent {have.get('parentQueue')} → {want.get('parentQueue')}")
    if "priority" in want and have.get("priority") != want["priority"]:
        lines.append(f"{name}: priority {have.get('priority')} → {want['priority']}")
    for resource, share in want["resources"].items():
        now = have.get("resources", {}).get(resource, {})
        lines += [
            f"{name}: {resource} {key} {now.get(key, 'omitted (0)')} → {value:g}"
            for key, value in share.items()
            if now.get(key) != value
        ]
    return lines
