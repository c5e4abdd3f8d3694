"""Random queue trees for the division of resources, as plain data that can be given to KAI's own function."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from lab.fair_share import RESOURCES, QueueClaim, fair_shares
from lab.objects.kai import QueueShare

_SCALE = {"cpu": 1000.0, "memory": 1000.0, "gpu": 1.0}


def random_tree(random: Random) -> dict[str, Any]:
    """A cluster and up to 24 queues in up to 4 levels; requests of parents are the sums of their children's."""
    total = {"cpu": 1000.0 * random.randint(0, 64), "memory": 1000.0 * random.randint(0, 256), "gpu": _gpus(random, 32)}
    queues: list[dict[str, Any]] = []
    for number in range(random.randint(1, 24)):
        parents = [queue["name"] for queue in queues if queue["level"] < 4]
        parent = random.choice(parents) if parents and random.random() < 0.6 else ""
        level = next((queue["level"] for queue in queues if queue["name"] == parent), 0) + 1
        queues.append({**_queue(random, f"q{number}"), "parent": parent, "level": level})
    for queue in reversed(queues):
        children = [child for child in queues if child["parent"] == queue["name"]]
        if children:
            queue["request"] = {name: sum(child["request"][name] for child in children) for name in RESOURCES}
    return {"k": random.choice([0.0, 0.5, 1.0, 1.0, 4.0]), "total": total, "queues": queues}


def shares_of(tree: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Queue → resource → fair share of such a tree."""
    queues = [
        QueueClaim(
            name=row["name"],
            parent=row["parent"],
            priority=row["priority"],
            created=f"{row['created']:06}",
            shares={
                name: QueueShare(share["quota"], share["limit"], share["weight"])
                for name, share in row["shares"].items()
            },
            request=row["request"],
            usage=row["usage"],
        )
        for row in tree["queues"]
    ]
    found = fair_shares(queues, tree["total"], tree["k"])
    return {queue: {name: share.fair for name, share in shares.items()} for queue, shares in found.items()}


def _queue(random: Random, name: str) -> dict[str, Any]:
    used = random.random() < 0.3
    return {
        "name": name,
        "priority": random.choice([50, 100, 100, 100, 200]),
        "created": random.randint(0, 3),
        "shares": {resource: _share(random, _SCALE[resource]) for resource in RESOURCES},
        "request": {resource: _request(random, _SCALE[resource]) for resource in RESOURCES},
        "usage": {resource: round(random.random(), 3) if used else 0.0 for resource in RESOURCES},
    }


def _share(random: Random, scale: float) -> dict[str, float]:
    quota = random.choice([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0])
    limit = random.choice([-1.0, -1.0, -1.0, 0.0, 1.0, 2.5, 4.0, 8.0])
    return {
        "quota": quota if quota == -1 else quota * scale,
        "limit": limit if limit == -1 else limit * scale,
        "weight": random.choice([0.0, 1.0, 1.0, 1.0, 2.0, 3.0, 0.7, 5.5]),
    }


def _request(random: Random, scale: float) -> float:
    return scale * random.choice([0.0, 1.0, 2.0, float(random.randint(0, 16)), round(random.uniform(0, 12), 2)])


def _gpus(random: Random, most: int) -> float:
    return float(random.randint(0, most)) if random.random() < 0.8 else round(random.uniform(0, most), 2)
