"""Provider ``existing``: step ``cluster`` is a kubeconfig of one context, step ``network`` its Ready nodes."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lab.config import LabSpec
from lab.engine.step import Effect, Observed
from lab.errors import ApiFailed, LabError, WaitTimeout
from lab.files import write_atomic
from lab.kube import OWNER_LABEL, Cluster
from lab.kube.access_review import Permission
from lab.kube.leftovers import labelled
from lab.kube.readiness import is_ready
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.session.user_kubeconfig import CLAIM, connect, named_context, one_context, uid_of
from lab.workloads.temporary import PROCESS_LABEL

_GONE_SECONDS = 120.0

Json = dict[str, Any]


def refuse_another(ctx: LabContext, cluster: Cluster) -> None:
    """Raise LabError if the context leads to another cluster than the one that the lab has used so far."""
    for owned in ctx.journal.owned(CLAIM):
        if (uid := owned.facts.get("uid")) and uid != uid_of(cluster):
            raise LabError(
                f"context {ctx.spec.cluster.context} leads to another cluster than the one with lab {ctx.spec.name}",
                evidence=[f"the lab is on {owned.facts.get('server')}; the context leads to {cluster.server}"],
                fix="restore the context, or give the new lab another name",
            )


@dataclass(frozen=True)
class ExistingCluster(LabStep):
    """The cluster that the lab file names."""

    spec: LabSpec
    needs: tuple[str, ...] = ()
    id: str = "cluster"
    title: str = "Existing cluster"

    def wanted(self) -> object:
        return self.spec.cluster

    def effects(self) -> tuple[Effect, ...]:
        file, context = named_context(self.spec)
        what = f"copy of context {context} of {file} in the lab's state directory; {file} is not touched"
        return (Effect("lab", what, "kailab down"),)

    def permissions(self) -> tuple[Permission, ...]:
        """To count GPUs, and who uses them."""
        return tuple(Permission(verb, "", kind) for kind in ("namespaces", "nodes", "pods") for verb in ("get", "list"))

    def observe(self, ctx: LabContext) -> Observed:
        if not ctx.paths.kubeconfig.exists():
            return Observed.drifted("this lab has not used it yet")
        if ctx.paths.kubeconfig.read_text() != one_context(*named_context(self.spec)):
            return Observed.drifted("the user's kubeconfig has changed")
        cluster = ctx.cluster()
        refuse_another(ctx, cluster)
        return Observed.ready(cluster.server)

    def apply(self, ctx: LabContext) -> None:
        text = one_context(*named_context(self.spec))
        with_user = connect(self.spec)
        refuse_another(ctx, with_user)
        ctx.journal.owns("file", str(ctx.paths.kubeconfig), self.id)
        ctx.journal.owns(CLAIM, with_user.server, self.id, server=with_user.server, uid=uid_of(with_user))
        with_user.close()
        write_atomic(ctx.paths.kubeconfig, text, mode=0o600)
        ctx.cluster().close()  # it may have read an older copy

    def verify(self, ctx: LabContext) -> None:
        if not ctx.cluster().healthy():
            raise ApiFailed(f"the API server {ctx.cluster().server} does not answer /readyz", fix="kailab up")

    def undo(self, ctx: LabContext) -> None:
        """Delete what killed tests left; the other steps have removed their objects. Waits for namespaces that end.

        Nothing else is deleted by its label: a step that refused, because others use what it made, must stand.
        """
        cluster, own = ctx.cluster(), f"{OWNER_LABEL}={self.spec.name}"
        for kind in ("Namespace", "Topology"):
            for left in cluster.list(kind, labels=f"{own},{PROCESS_LABEL}"):
                cluster.delete(kind, left["metadata"]["name"])
        with suppress(WaitTimeout):  # one that stays is a leftover
            cluster.wait(
                "Namespace",
                lambda found: not any("deletionTimestamp" in space["metadata"] for space in found),
                labels=own,
                timeout=_GONE_SECONDS,
                what=f"namespaces of lab {self.spec.name} are gone",
            )

    def remains(self, ctx: LabContext) -> tuple[str, ...]:
        """Objects of any kind with the lab's label; a notice names the kinds that the user may not list."""
        found = labelled(ctx.cluster(), self.spec.name)
        if found.unlisted:
            ask = ctx.cluster().kubectl("get", ",".join(found.unlisted), "-A", "-l", f"{OWNER_LABEL}={self.spec.name}")
            ctx.notice(
                f"kinds that you may not list were not searched for objects of lab {self.spec.name}:"
                f" {', '.join(found.unlisted)}; an administrator can: {ask}"
            )
        return found.titles


@dataclass(frozen=True)
class ReadyNodes(LabStep):
    """The nodes of an existing cluster; those that are not Ready are their owner's."""

    spec: LabSpec
    needs: tuple[str, ...] = ("cluster",)
    id: str = "network"
    title: str = "Nodes"

    def observe(self, ctx: LabContext) -> Observed:
        nodes = ctx.cluster().list("Node")
        if not any(map(_usable, nodes)):
            return Observed.drifted("no node is Ready and schedulable", list(_unready(nodes)))
        away = f", not Ready: {', '.join(_unready(nodes))}" if any(_unready(nodes)) else ""
        return Observed.ready(f"{sum(map(_usable, nodes))} of {len(nodes)} nodes Ready{away}")

    def apply(self, ctx: LabContext) -> None:
        """Raise LabError: the lab repairs no node of others."""
        raise LabError(
            "no node of the cluster is Ready and schedulable",
            evidence=list(_unready(ctx.cluster().list("Node"))),
            fix=ctx.cluster().kubectl("get", "nodes"),
        )


def _usable(node: Json) -> bool:
    return is_ready(node) and not node.get("spec", {}).get("unschedulable")


def _unready(nodes: Iterable[Json]) -> tuple[str, ...]:
    return tuple(node["metadata"]["name"] for node in nodes if not _usable(node))
