"""Step ``queues``: KAI's Queue objects are as in the lab file, nothing left to KAI's defaults."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec, QueueResource, QueueSpec
from lab.engine.step import Effect, Observed, State
from lab.errors import ApiFailed, LabError, StepFailed
from lab.kai import line_of
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.retry import retry
from lab.session.context import LabContext
from lab.session.step import LabStep

KIND = "Queue.scheduling.run.ai"

TEST_LABEL = "kailab.dev/test"
"""Label of queues that a test made for itself; the value is the same for all queues of one tree."""

_WEBHOOK_SECONDS = 60.0
_GONE_SECONDS = 60.0


def queue_steps(spec: LabSpec) -> list[Queues]:
    """The step that makes the queues; none without KAI."""
    return [Queues(spec)] if spec.scheduler == "kai" else []


def queue_documents(spec: LabSpec) -> list[dict[str, Any]]:
    """The Queue objects, parents before their children.

    Quota, limit and weight of all three resources are written out: KAI reads an omitted limit as 0, so that
    nothing runs, and refuses a queue without resources (docs/queues/README.md, KAI 0.17.0).
    """
    return [_document(queue, spec.name) for queue in parents_first(spec.queues)]


@contextmanager
def temporary_queues(
    cluster: Cluster, lab: str, queues: Iterable[QueueSpec], seconds: float = _WEBHOOK_SECONDS
) -> Iterator[dict[str, str]]:
    """Queues for one test: made here, removed at the end, children first.

    Gives each queue's name in the cluster by its name in ``queues``: queues are cluster-wide, so every tree gets
    names of its own. A parent that is not among ``queues`` is taken as it is called. Both labels are set: the
    lab's, so that ``lab up`` and ``lab down`` take away what a killed test left, and ``TEST_LABEL``.

    Args:
        cluster: the lab's own cluster.
        lab: name of the lab.
        queues: the tree.
        seconds: to go on while KAI's webhooks do not answer or know of children that are gone.

    Raises:
        ApiFailed: KAI refused a queue.
        WaitTimeout: a queue is still there at the end.
    """
    wanted = list(queues)
    tree = secrets.token_hex(3)
    names = {queue.name: f"t-{queue.name}-{tree}" for queue in wanted}
    docs = []
    for queue in parents_first(wanted):
        parent = names.get(queue.parent, queue.parent) if queue.parent else None
        renamed = queue.model_copy(update={"name": names[queue.name], "parent": parent})
        docs.append(_document(renamed, lab))
        docs[-1]["metadata"]["labels"][TEST_LABEL] = tree
    try:
        cluster.apply(docs, retry=seconds)
        yield names
    finally:
        delete_queues(cluster, {queue["metadata"]["name"]: queue for queue in docs}, seconds)


def parents_first(queues: Iterable[QueueSpec]) -> list[QueueSpec]:
    """Queues so that each comes after its parent, otherwise in their order."""
    waiting = list(queues)
    done: list[QueueSpec] = []
    names: set[str] = set()
    while waiting:
        free = [queue for queue in waiting if queue.parent is None or queue.parent in names]
        if not free:  # the lab file's rules refuse circles and unknown parents
            return [*done, *waiting]
        done += free
        names.update(queue.name for queue in free)
        waiting = [queue for queue in waiting if queue.name not in names]
    return done


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
        return (Effect("cluster", f"queues {', '.join(tree) or 'none'}", "lab down"),)

    def observe(self, ctx: LabContext) -> Observed:
        there = {queue["metadata"]["name"]: queue for queue in ctx.cluster().list(KIND)}
        wanted = queue_documents(self.spec)
        lines = [line for doc in wanted for line in _differences(doc, there.get(doc["metadata"]["name"]))]
        lines += [f"{name}: no longer in the lab file" for name in self._surplus(there)]
        if not lines:
            return Observed.ready(f"{len(wanted)} queues")
        if wanted and not any(doc["metadata"]["name"] in there for doc in wanted):
            return Observed.absent()
        return Observed.drifted("differ from the lab file", lines)

    def apply(self, ctx: LabContext) -> None:
        """See Step.

        Raises:
            LabError: somebody else's queue of that name is in the cluster.
        """
        cluster = ctx.cluster()
        there = {queue["metadata"]["name"]: queue for queue in cluster.list(KIND)}
        wanted = queue_documents(self.spec)
        if self.spec.cluster.provider == "existing":
            self._refuse_foreign(wanted, there)
        cluster.apply(wanted, retry=_WEBHOOK_SECONDS)
        delete_queues(cluster, {name: there[name] for name in self._surplus(there)})

    def verify(self, ctx: LabContext) -> None:
        seen = self.observe(ctx)
        if seen.state is not State.READY:
            look = ("get", "queues.scheduling.run.ai", "-o", "yaml", "--show-managed-fields")
            raise StepFailed(
                "the queues are not as applied: something else in the cluster changes them",
                evidence=seen.diff,
                fix=f"see who: {ctx.cluster().kubectl(*look)}",
            )

    def undo(self, ctx: LabContext) -> None:
        cluster = ctx.cluster()
        delete_queues(cluster, {q["metadata"]["name"]: q for q in cluster.list(KIND, labels=self._mine)})

    @property
    def _mine(self) -> str:
        return f"{OWNER_LABEL}={self.spec.name}"

    def _surplus(self, there: Mapping[str, dict[str, Any]]) -> list[str]:
        """Queues that this lab made and that are no longer in its file."""
        keep = {queue.name for queue in self.spec.queues}
        # the chart's own, should an earlier lab file have named them
        keep.update(line_of(self.spec.kai.version).default_queues)
        return [name for name, queue in there.items() if name not in keep and _owner(queue) == self.spec.name]

    def _refuse_foreign(self, wanted: list[dict[str, Any]], there: Mapping[str, dict[str, Any]]) -> None:
        names = [doc["metadata"]["name"] for doc in wanted]
        if foreign := [name for name in names if name in there and _owner(there[name]) != self.spec.name]:
            raise LabError(
                f"the cluster has queues of these names that this lab did not make: {', '.join(foreign)}",
                fix="give the lab's queues other names; queues are cluster-wide",
            )


def delete_queues(cluster: Cluster, queues: Mapping[str, dict[str, Any]], seconds: float = _WEBHOOK_SECONDS) -> None:
    """Delete queues, children first: KAI 0.14 and newer refuse to delete a queue that has children.

    They go by the parent's ``status.childQueues`` (queue_validator.go), which the queue controller writes a moment
    after a child is gone: that refusal is asked again for ``seconds``.
    """
    left = dict(queues)
    while left:
        parents = {queue.get("spec", {}).get("parentQueue") for queue in left.values()}
        for name in [name for name in left if name not in parents] or list(left):
            delete = functools.partial(cluster.delete, KIND, name, wait=_GONE_SECONDS)
            retry(delete, when=_not_yet_childless, timeout=seconds, interval=0.2, sleep=cluster.calls.pause)
            del left[name]


def _not_yet_childless(error: ApiFailed) -> bool:
    """Whether KAI has not seen yet that a queue's children are gone, or its webhook is starting."""
    return any(words in error.what for words in ("has child queues", "failed calling webhook"))


def _owner(queue: Mapping[str, Any]) -> str | None:
    return (queue["metadata"].get("labels") or {}).get(OWNER_LABEL)


def _differences(doc: dict[str, Any], there: Mapping[str, Any] | None) -> list[str]:
    """How an existing queue differs in what the lab file decides; one line each."""
    name = doc["metadata"]["name"]
    if there is None:
        return [f"{name}: missing"]
    have, want = there.get("spec", {}), doc["spec"]
    lines = [] if _owner(there) == _owner(doc) else [f"{name}: label {OWNER_LABEL} is {_owner(there)}"]
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
