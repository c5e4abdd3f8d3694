"""Detects node containers with this lab's name that belong to another user or state directory.

Labs of several users or state directories may have the same name, and kind and the engine know only the name. So each
node mounts a file at a path with the id of the state directory. Every engine reports a mount's target unchanged; some
rewrite its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.errors import NameTaken
from lab.host import daemon, engines
from lab.host.machine import Machine
from lab.paths import owner
from lab.session.context import KIND_CLUSTER_LABEL, LabContext
from lab.steps.node_image import OWNER, STATE
from lab.tools.container import Container, ContainerEngine
from lab.tools.process import Runner

_MARK = "/etc/kailab/owner-"

_MADE_NETWORK = "/etc/kailab/made-network"
"""A mount of nodes whose network was created by a lab, of any state directory: the last of them removes it."""


def owner_mounts(ctx: LabContext, *, made_network: bool) -> tuple[dict[str, Any], ...]:
    """The mounts that identify a node, for kind; creates their file."""
    ctx.paths.owner.write_text(f"The nodes of lab {ctx.spec.name} mount this file: they belong to this directory.\n")
    marks = (f"{_MARK}{owner()}", *([_MADE_NETWORK] if made_network else ()))
    return tuple({"hostPath": str(ctx.paths.owner), "containerPath": mark, "readOnly": True} for mark in marks)


def one_off(ctx: LabContext) -> tuple[str, ...]:
    """Options of ``run`` for a container of the lab that removes itself; ``kailab down`` finds it after a kill."""
    labels = ("--label", f"{OWNER}={ctx.spec.name}", "--label", f"{STATE}={owner()}")
    return ("--rm", "--network", "none", *labels)


def is_of_labs(engine: ContainerEngine, network: str) -> bool:
    """Whether a node on a network says that a lab created it."""
    users = map(engine.inspect, engine.users_of_network(network))
    return any(_MADE_NETWORK in user.mounts for user in users if user is not None)


def foreign_nodes(ctx: LabContext) -> tuple[str, ...]:
    """Names of such containers. Raises LabError."""
    if not ctx.spec.cluster.own:
        return ()
    # nodes of an earlier kailab have no mark, but its journal has the cluster
    claimed = any(owned.name == ctx.kind_name for owned in ctx.journal.owned("cluster"))
    return tuple(sorted(node.name for node in ctx.nodes() if not _is_ours(node, claimed)))


def refuse_foreign_nodes(ctx: LabContext) -> None:
    """Raise NameTaken if such containers exist."""
    if names := foreign_nodes(ctx):
        raise name_taken(ctx.spec.name, names)


def name_taken(lab: str, nodes: Sequence[str]) -> NameTaken:
    """The error about another owner's nodes."""
    return NameTaken(
        f"{len(nodes)} node containers named after lab {lab!r} belong to another user or state directory",
        evidence=nodes,
        fix=f"rename your lab with --name, or remove leftovers of your own with 'kailab down --name {lab}'",
    )


def living_labs(run: Runner) -> list[str]:
    """Labs that have containers on this machine, of any user and state directory, one line each."""
    found: dict[str, list[str]] = {}
    for engine in (ContainerEngine(run, name) for name in engines.NAMES if run.which(name) is not None):
        if engine.call("version", check=False).code != 0:
            if engine.name == "docker" and (unknown := daemon.residents(run, Machine())):
                found["docker does not answer and has"] = unknown
            continue
        for container in (*engine.containers(KIND_CLUSTER_LABEL), *engine.containers(OWNER)):
            cluster = container.labels.get(KIND_CLUSTER_LABEL, "")
            if lab := cluster.removeprefix("kailab-") if cluster.startswith("kailab-") else container.labels.get(OWNER):
                theirs = any(path.startswith(_MARK) and path != f"{_MARK}{owner()}" for path in container.mounts)
                where = ", of another user or state directory" if theirs else ""
                found.setdefault(f"lab {lab}{where}:", []).append(container.name)
    return [f"{lab} {', '.join(sorted(set(names)))}" for lab, names in sorted(found.items())]


def _is_ours(node: Container, claimed: bool) -> bool:
    marks = [path for path in node.mounts if path.startswith(_MARK)]
    return f"{_MARK}{owner()}" in marks if marks else claimed
