"""Detects node containers with this lab's name that belong to another user or state directory.

Labs of several users or state directories may have the same name, and kind and the engine know only the name. So each
node mounts a file at a path with the id of the state directory. Every engine reports a mount's target unchanged; some
rewrite its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.errors import NameTaken
from lab.paths import owner
from lab.session.context import LabContext
from lab.tools.container import Container, ContainerEngine

_MARK = "/etc/kailab/owner-"

_MADE_NETWORK = "/etc/kailab/made-network"
"""A mount of nodes whose network was created by a lab, of any state directory: the last of them removes it."""


def owner_mounts(ctx: LabContext, *, made_network: bool) -> tuple[dict[str, Any], ...]:
    """The mounts that identify a node, for kind; creates their file."""
    ctx.paths.owner.write_text(f"The nodes of lab {ctx.spec.name} mount this file: they belong to this directory.\n")
    marks = (f"{_MARK}{owner()}", *([_MADE_NETWORK] if made_network else ()))
    return tuple({"hostPath": str(ctx.paths.owner), "containerPath": mark, "readOnly": True} for mark in marks)


def is_of_labs(engine: ContainerEngine, network: str) -> bool:
    """Whether a node on a network says that a lab created it."""
    users = map(engine.inspect, engine.users_of_network(network))
    return any(_MADE_NETWORK in user.mounts for user in users if user is not None)


def foreign_nodes(ctx: LabContext) -> tuple[str, ...]:
    """Names of such containers. Raises LabError."""
    if ctx.spec.cluster.provider != "kind":
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
        fix=f"rename your lab with --name, or remove leftovers of your own with 'lab down --name {lab}'",
    )


def _is_ours(node: Container, claimed: bool) -> bool:
    marks = [path for path in node.mounts if path.startswith(_MARK)]
    return f"{_MARK}{owner()}" in marks if marks else claimed
