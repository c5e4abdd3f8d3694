"""Node containers of the lab's name that this user's kailab did not make: they are another's, and are left alone.

Two users of one machine, or two state directories, may name their labs alike; kind and the engine know only the name.
So each node mounts a file at a path that names the state directory. Where a file is mounted, every engine tells as it
was asked; where it comes from, some rewrite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.errors import NameTaken
from lab.paths import owner
from lab.session.context import LabContext
from lab.tools.container import Container

_MARK = "/etc/kailab/owner-"


def owner_mount(ctx: LabContext) -> dict[str, Any]:
    """The mount by which a node is known, for kind; its file is made."""
    ctx.paths.owner.write_text(f"The nodes of lab {ctx.spec.name} mount this file: they belong to this directory.\n")
    return {"hostPath": str(ctx.paths.owner), "containerPath": f"{_MARK}{owner()}", "readOnly": True}


def strangers(ctx: LabContext) -> tuple[str, ...]:
    """Names of such containers. Raises LabError."""
    if ctx.spec.cluster.provider != "kind":
        return ()
    # an earlier kailab's nodes have no mark; its labs wrote down that they make a cluster before they made it
    claimed = any(owned.name == ctx.kind_name for owned in ctx.journal.owned("cluster"))
    return tuple(sorted(node.name for node in ctx.nodes() if not _is_ours(node, claimed)))


def refuse_strangers(ctx: LabContext) -> None:
    """Stop where a cluster of the lab's name is somebody else's.

    Raises:
        NameTaken: there are such containers.
    """
    if names := strangers(ctx):
        raise name_taken(ctx.spec.name, names)


def name_taken(lab: str, nodes: Sequence[str]) -> NameTaken:
    """The error of somebody else's nodes."""
    return NameTaken(
        f"{len(nodes)} node containers of a lab {lab!r} are here, and not by this state directory",
        evidence=nodes,
        fix=f"--name gives yours another name; if they are what is left of yours, lab down --name {lab}",
    )


def _is_ours(node: Container, claimed: bool) -> bool:
    marks = [path for path in node.mounts if path.startswith(_MARK)]
    return f"{_MARK}{owner()}" in marks if marks else claimed
