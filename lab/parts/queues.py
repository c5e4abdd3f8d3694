"""Step ``queues``: KAI's Queue objects are as in the lab file, nothing left to KAI's defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.engine.step import Effect, Observed, State
from lab.errors import LabError, StepFailed
from lab.kube import OWNER_LABEL
from lab.parts.context import LabContext
from lab.parts.kai import kai_steps, line_of
from lab.spec import LabSpec

if TYPE_CHECKING:
    from lab.kube import Cluster
    from lab.spec import QueueResource, QueueSpec

KIND = "Queue.scheduling.run.ai"

_WEBHOOK_SECONDS = 60.0
_GONE_SECONDS = 60.0


def queue_steps(spec: LabSpec, available: bool) -> list[Queues]:
    """The step that makes the queues; none without KAI.

    Args:
        spec: the lab file.
        available: KAI can be had.

    Raises:
        SpecError: the lab does not know that KAI version.
        Unavailable: the lab file insists on KAI, and it cannot be had.
    """
    return [Queues(spec)] if kai_steps(spec, available) else []


def queue_documents(spec: LabSpec) -> list[dict[str, Any]]:
    """The Queue objects, parents before their children.

    Quota, limit and weight of all three resources are written out: KAI reads an omitted limit as 0, so that
    nothing runs, and refuses a queue without resources (docs/queues/README.md, KAI 0.17.0).
    """
    return [_document(queue, spec.name) for queue in parents_first(spec.queues)]


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
        "resources": {
            "cpu": _share(queue.cpu),
            "memory": _share(queue.memory),
            "gpu": _share(queue.gpu),
        }
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
class Queues:
    """The lab file's queues."""

    spec: LabSpec
    needs: tuple[str, ...] = ("kai",)
    id: str = "queues"
    title: str = "Queues"

    def effects(self) -> tuple[Effect, ...]:
        """See Step."""
        children = {queue.name: queue.parent for queue in self.spec.queues}
        tree = [f"{name} (in {parent})" if parent else name for name, parent in children.items()]
        return (Effect("cluster", f"queues {', '.join(tree) or 'none'}", "lab down"),)

    def observe(self, ctx: LabContext) -> Observed:
        """See Step."""
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
        self._delete(cluster, {name: there[name] for name in self._surplus(there)})

    def verify(self, ctx: LabContext) -> None:
        """See Step."""
        seen = self.observe(ctx)
        if seen.state is not State.READY:
            look = ("get", "queues.scheduling.run.ai", "-o", "yaml", "--show-managed-fields")
            raise StepFailed(
                "the queues are not as applied: something else in the cluster changes them",
                evidence=seen.diff,
                fix=f"see who: {ctx.cluster().kubectl(*look)}",
            )

    def undo(self, ctx: LabContext) -> None:
        """See Step. A kind cluster takes its queues with it."""
        if self.spec.cluster.provider == "kind":
            return
        cluster = ctx.cluster()
        self._delete(cluster, {q["metadata"]["name"]: q for q in cluster.list(KIND, labels=self._mine)})

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

    def _delete(self, cluster: Cluster, queues: Mapping[str, dict[str, Any]]) -> None:
        """Delete queues, children first: KAI 0.14 and newer refuse to delete a queue that has children."""
        left = dict(queues)
        while left:
            parents = {queue.get("spec", {}).get("parentQueue") for queue in left.values()}
            leaves = [name for name in left if name not in parents] or list(left)
            for name in leaves:
                cluster.delete(KIND, name, wait=_GONE_SECONDS)
                del left[name]


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
