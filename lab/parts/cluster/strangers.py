"""Node containers of the lab's name that this user's kailab did not make: they are another's, and are left alone.

Two users of one machine, or two state directories, may name their labs alike; the engine knows only the name.
"""

from __future__ import annotations

from lab.errors import NameTaken
from lab.parts.context import LabContext


def strangers(ctx: LabContext) -> tuple[str, ...]:
    """Names of such containers. A lab writes down that it makes a cluster before it makes it. Raises LabError."""
    ours = any(owned.name == ctx.kind_name for owned in ctx.journal.owned("cluster"))
    if ours or ctx.spec.cluster.provider != "kind":
        return ()
    return tuple(sorted(node.name for node in ctx.nodes()))


def refuse_strangers(ctx: LabContext) -> None:
    """Stop where a cluster of the lab's name is somebody else's.

    Raises:
        NameTaken: there are such containers.
    """
    if names := strangers(ctx):
        name = ctx.spec.name
        raise NameTaken(
            f"{len(names)} node containers of a lab {name!r} are here, and not by this state directory",
            evidence=names,
            fix=f"--name gives yours another name; if they are what is left of yours, lab down --name {name}",
        )
