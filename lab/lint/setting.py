"""What manifests will meet in a lab, from its lab file."""

from __future__ import annotations

from typing import Any

from lab.kai import line_of
from lab.lint.model import Setting
from lab.lint.queues import default_queues, fact_of
from lab.spec import LabSpec


def setting_of(spec: LabSpec) -> Setting:
    """The setting of a lab. Its queues, and those that KAI's chart makes, are all the queues there are.

    Raises:
        SpecError: KAI's version is older than all that are known.
    """
    line = line_of(spec.kai.version)
    own = {queue.name: fact_of(queue.name, _document(queue)) for queue in spec.queues}
    pools = [pool for pool in spec.gpu_pools if pool.per_node]
    return Setting(
        line=line,
        queues={**default_queues(line), **own},
        gpu_sharing=spec.kai.gpu_sharing,
        gpu_memory=max((pool.memory for pool in pools), default=0),
        gpus_per_node=max((pool.per_node for pool in pools), default=0) if spec.gpu.mode == "simulated" else 0,
        runtime_classes=frozenset({"nvidia"}) if pools else frozenset(),
    )


def _document(queue: Any) -> dict[str, Any]:
    shares = {name: getattr(queue, name) for name in ("cpu", "memory", "gpu")}
    return {
        "parentQueue": queue.parent or "",
        "resources": {name: {"quota": share.quota, "limit": share.limit} for name, share in shares.items()},
    }
