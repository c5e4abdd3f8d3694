"""Puts the watch into a cluster, reads its state, and removes it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from lab.errors import Leftovers, SpecError
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.describe import title_of
from lab.kube.ownership import is_own, owner_of, refuse_foreign
from lab.kube.proxy import Proxy
from lab.kube.readiness import is_ready
from lab.objects.fields import labels_of
from lab.session.lab import Lab
from lab.steps.loaded_images import load, missing, workers
from lab.supply import Item
from lab.supply.pull_secrets import copy_pull_secrets, refuse_missing_secrets
from lab.supply.registry import mirrored
from lab.watch.manifests import LOCAL_IMAGE, OPERATOR_GROUP, WatchObjects, identity_of
from lab.watch.metrics import series_of
from lab.watch.names import APP_LABELS, INVARIANTS, NAME, PORT

READY_SECONDS = 180.0
_GONE_SECONDS = 120.0
_PROXY_SECONDS = 20.0

_CLUSTER_WIDE = ("ClusterRoleBinding", "ClusterRole", "Namespace")
"""Kinds of the objects whose removal removes all; the namespace contains the rest."""

CLAIM = "watch"
"""Kind of the journal's record of a lab's watch."""

_SELECTOR = ",".join(f"{key}={value}" for key, value in APP_LABELS.items())

Json = dict[str, Any]


@dataclass(frozen=True)
class WatchTarget:
    """The cluster of a watch: a lab's, or any other."""

    cluster: Cluster
    title: str
    lab: Lab | None = None

    @property
    def owner(self) -> str:
        """Value of the label of everything that is created: the lab's name, or ``kailab-watch``."""
        return self.lab.spec.name if self.lab else NAME

    @property
    def loads_image(self) -> bool:
        """Whether kailab makes the image and loads it into the nodes: into those of a lab's own cluster."""
        return self.lab is not None and self.lab.spec.cluster.own

    def objects(self, image: str, **canary: Any) -> WatchObjects:
        """The objects for this cluster; an existing one pulls as its lab's other pods do, and may have an adopted KAI.

        ``canary`` are ``canary``, ``queues`` and ``interval`` of ``WatchObjects``.
        """
        if self.lab is None or self.lab.spec.cluster.own:
            return WatchObjects(self.owner, image or LOCAL_IMAGE, **canary)
        supply, labels = self.lab.spec.supply, self.lab.kai_serves
        image = mirrored(image, supply.mirrors)
        return WatchObjects(self.owner, image, pull_secrets=supply.pull_secrets, namespace_labels=labels, **canary)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lab's lock; nothing for other clusters."""
        if self.lab is None:
            yield
        else:
            with self.lab.session.locked():
                yield


@dataclass(frozen=True)
class WatchInstalled:
    """Result of ``kailab watch install``."""

    cluster: str
    image: str
    canary: bool
    objects: tuple[str, ...]
    """All objects of the watch."""
    skipped: tuple[str, ...]
    """Objects of the Prometheus Operator, which the cluster does not have."""
    seconds: float


@dataclass(frozen=True)
class WatchedInvariant:
    """An invariant as the watch sees it."""

    id: str
    title: str
    evaluated: bool
    now: int
    """Violations that last."""
    total: int
    """Violations since the watch started."""
    defects: tuple[str, ...] = ()
    """Known defects of KAI behind those that last."""
    cured_in: tuple[str, ...] = ()
    proven: bool = False
    """Whether a defect provably caused one of them; otherwise each of the defects may have."""


@dataclass(frozen=True)
class WatchedQueue:
    """The canary pods of a queue."""

    queue: str
    bound: int
    mean_seconds: float | None
    """Until they were bound; None before the first."""
    failures: int


@dataclass(frozen=True)
class WatchStatus:
    """Result of ``kailab watch status``."""

    cluster: str
    installed: bool
    ready: bool = False
    image: str = ""
    kai_version: str = ""
    invariants: tuple[WatchedInvariant, ...] = ()
    canaries: tuple[WatchedQueue, ...] = ()
    memory_bytes: int = 0
    api_requests: Mapping[str, int] = field(default_factory=dict)
    """By verb, since the watch started."""

    @property
    def violations(self) -> int:
        """Violations that last now."""
        return sum(one.now for one in self.invariants)


@dataclass(frozen=True)
class WatchRemoved:
    """Result of ``kailab watch remove``."""

    cluster: str
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    """Objects of these names that kailab did not create there."""
    seconds: float


def install(target: WatchTarget, image: str = "", **canary: Any) -> WatchInstalled:
    """Create or update the watch in a cluster, and wait until it has read the cluster.

    Args:
        target: a lab's cluster or any other.
        image: a reference that the nodes can pull; empty for a lab's own cluster: kailab makes the image and loads it
            into the nodes.
        **canary: ``canary``, ``queues`` and ``interval`` of ``WatchObjects``.

    Raises:
        SpecError: a cluster that is not a lab's own needs an image, or lacks a pull secret of the lab file.
        StepFailed: an object of one of the names exists and belongs to somebody else.
        WaitTimeout: the watch did not become ready.
    """
    began = time.monotonic()
    cluster = target.cluster
    if not image and not target.loads_image:
        raise _without_image(target.lab)
    with target.locked():
        wanted = target.objects(image, **canary)
        operator = cluster.calls.json_or_none(f"/apis/{OPERATOR_GROUP}", "Prometheus Operator") is not None
        docs = wanted.documents(operator=operator)
        refuse_foreign(cluster, target.owner, docs, fix="remove that watch")
        if target.lab is not None:
            refuse_missing_secrets(cluster, target.lab.spec)
            target.lab.context(NAME).journal.owns(CLAIM, NAME, NAME)
            if not image:
                docs = replace(wanted, identity=_load(target.lab)).documents(operator=operator)
        if (cluster.get("Namespace", NAME) or {}).get("metadata", {}).get("deletionTimestamp"):
            cluster.delete("Namespace", NAME, wait=_GONE_SECONDS)  # else it takes along what is applied now
        cluster.apply(docs[:1])
        if target.lab is not None:
            copy_pull_secrets(cluster, target.lab.spec, NAME)
        cluster.apply(docs[1:])
        if not wanted.canary:
            for kind in ("RoleBinding", "Role"):
                cluster.delete(kind, NAME, NAME)
        cluster.wait_ready("Deployment", NAME, NAME, READY_SECONDS)
    made = [title_of(doc) for doc in docs]
    skipped = [title for doc in wanted.documents() if (title := title_of(doc)) not in made]
    seconds = time.monotonic() - began
    return WatchInstalled(target.title, wanted.image, wanted.canary, tuple(made), tuple(skipped), seconds)


def status(target: WatchTarget) -> WatchStatus:
    """Read the watch's Deployment and, once it is ready, its metrics. Raises ApiFailed."""
    cluster = target.cluster
    deployment = cluster.get("Deployment", NAME, NAME)
    if deployment is None:
        return WatchStatus(target.title, installed=False)
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    if not is_ready(deployment):
        return WatchStatus(target.title, installed=True, image=image)
    text = Proxy(cluster, "Service", NAME, NAME, PORT).raw("GET", "/metrics", patience=_PROXY_SECONDS).decode()
    return status_of(target.title, image, text)


def status_of(title: str, image: str, text: str) -> WatchStatus:
    """The state of a ready watch, from its metrics."""
    by_name: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for name, labels, value in series_of(text):
        by_name.setdefault(name, []).append((labels, value))

    def total(name: str, **wanted: str) -> float:
        return sum(value for labels, value in by_name.get(name, ()) if wanted.items() <= labels.items())

    invariants = []
    for one in INVARIANTS:
        series = by_name["kailab_invariant_violations"]
        broken = [labels for labels, value in series if value and labels["invariant"] == one.id]
        invariants.append(
            WatchedInvariant(
                one.id,
                one.title,
                bool(total("kailab_invariant_evaluated", invariant=one.id)),
                int(total("kailab_invariant_violations", invariant=one.id)),
                int(total("kailab_invariant_violations_total", invariant=one.id)),
                _words(labels["defect"] for labels in broken),
                _words(labels["cured_in"] for labels in broken),
                any(labels["proven"] == "true" for labels in broken),
            )
        )
    canaries = []
    for labels, failures in by_name.get("kailab_canary_failures_total", ()):
        queue = labels["queue"]
        bound = total("kailab_canary_bound_seconds_count", queue=queue)
        mean = total("kailab_canary_bound_seconds_sum", queue=queue) / bound if bound else None
        canaries.append(WatchedQueue(queue, int(bound), mean, int(failures)))
    return WatchStatus(
        title,
        installed=True,
        ready=True,
        image=image,
        kai_version=next((labels["version"] for labels, _ in by_name.get("kailab_kai_info", ())), ""),
        invariants=tuple(invariants),
        canaries=tuple(canaries),
        memory_bytes=int(total("process_resident_memory_bytes")),
        api_requests={labels["verb"]: int(value) for labels, value in by_name.get("kailab_api_requests_total", ())},
    )


def remove(target: WatchTarget) -> WatchRemoved:
    """Remove the watch, and list what could be left of it; removing one that does not exist succeeds.

    Raises Leftovers: something of it still exists.
    """
    began = time.monotonic()
    cluster, owner = target.cluster, target.owner
    with target.locked():
        removed, kept = _remove(cluster, owner)
        if left := _left(cluster, owner):
            raise Leftovers(f"{left[0]} still exists", evidence=left, fix="run kailab watch remove again")
        if target.lab is not None:
            target.lab.context(NAME).journal.released(CLAIM, NAME)
    return WatchRemoved(target.title, tuple(removed), tuple(kept), time.monotonic() - began)


def remove_with(lab: Lab) -> WatchRemoved | None:
    """Remove the watch of a lab on an existing cluster, whose lock the caller holds; None if it has none.

    The journal names it, and where the lab's state was lost, the label of its namespace, which is removed last. Raises
    ApiFailed and WaitTimeout.
    """
    began = time.monotonic()
    cluster, name, journal = lab.cluster, lab.spec.name, lab.context(NAME).journal
    space = cluster.get("Namespace", NAME)
    labelled = space is not None and labels_of(space["metadata"]).get(OWNER_LABEL) == name
    if not labelled and not journal.owned(CLAIM):
        return None
    removed, kept = _remove(cluster, name)
    journal.released(CLAIM, NAME)
    return WatchRemoved(f"lab {name}", tuple(removed), tuple(kept), time.monotonic() - began)


def _remove(cluster: Cluster, owner: str) -> tuple[list[str], list[str]]:
    """Remove the owner's objects; returns their titles, and those of others with the owner."""
    removed, kept = [], []
    for kind in _CLUSTER_WIDE:
        existing = cluster.get(kind, NAME)
        if existing is None:
            continue
        if is_own(existing, owner):
            cluster.delete(kind, NAME, wait=_GONE_SECONDS)
            removed.append(f"{kind} {NAME}")
        else:
            kept.append(f"{kind} {NAME} {owner_of(existing)}")
    return removed, kept


def _without_image(lab: Lab | None) -> SpecError:
    """The refusal of a cluster whose nodes get no image from kailab; a lab with simulated GPUs may name the same."""
    known = lab.spec.gpu.image if lab is not None else None
    return SpecError(
        "--image is missing: only the nodes of a lab's own cluster get the image from kailab",
        fix=f"add --image {known}, which gpu.image of the lab file names"
        if known
        else "build and push it as docs/how-to/watch.md says, and add --image REF",
    )


def _left(cluster: Cluster, owner: str) -> list[str]:
    """Objects with the labels of the owner's watch, of all kinds that it has or causes."""
    labels = f"{_SELECTOR},{OWNER_LABEL}={owner}"
    docs = WatchObjects(owner, "", canary=True).documents(operator=False)
    kinds = dict.fromkeys([*(doc["kind"] for doc in docs), "Pod", "ReplicaSet", "PodGroup"])
    return [title_of({"kind": kind, **obj}) for kind in kinds for obj in cluster.list(kind, labels=labels)]


def _load(lab: Lab) -> str:
    """Load the image into the nodes, unless the running watch has the same; returns the name of its content."""
    ctx, supply = lab.context(NAME), lab.session.supply
    identity = supply.identity(Item("image", LOCAL_IMAGE))
    deployment = lab.cluster.get("Deployment", NAME, NAME) or {}
    if identity_of(deployment) != identity or missing(ctx, (LOCAL_IMAGE,)):
        archive = supply.path(Item("image", LOCAL_IMAGE), ctx.progress)
        ctx.progress("loading the image into the nodes")
        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="images") as pool:
            list(pool.map(lambda node: load(ctx, node, [archive]), workers(ctx)))
    return identity


def _words(values: Iterable[str]) -> tuple[str, ...]:
    """The different words of lists that are separated by commas."""
    return tuple(dict.fromkeys(word for value in values for word in value.split(",") if word))
