"""Situations as plain data that can be given to KAI's scheduler code too, and their sessions for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.fair_share import RESOURCES, QueueClaim
from lab.objects.kai import QueueShare, queue_path
from lab.objects.pod_requests import PodRequests
from lab.prediction.actions import ACTIONS, Cycle
from lab.prediction.model import NON_PREEMPTIBLE, Job, Place, Status, Task, Worker
from lab.prediction.queues import QueueStates
from lab.prediction.session import SchedulingSession

Json = dict[str, Any]


def session_of(case: Mapping[str, Any]) -> SchedulingSession:
    """A session with the case's nodes, queues (oldest first) and jobs."""
    machines = [
        Worker(
            n["name"],
            {"cpu": n["cpu"] * 1000, "memory": n["memory"], "pods": 110.0, "nvidia.com/gpu": n["gpus"]},
            40000,
        )
        for n in case["nodes"]
    ]
    total = {
        "cpu": sum(n["cpu"] * 1000 for n in case["nodes"]),
        "memory": sum(n["memory"] for n in case["nodes"]) / 1e6,
        "gpu": float(sum(n["gpus"] for n in case["nodes"])),
    }
    parents = {queue["name"]: queue["parent"] for queue in case["queues"]}
    requests = {name: dict.fromkeys(RESOURCES, 0.0) for name in parents}
    jobs, places = [], {}
    for row in case["jobs"]:
        tasks = []
        for number, at in enumerate(row["tasks"]):
            task = Task(f"{row['name']}-{number}", row["name"], _requests(row), uid=f"{row['name']}-{number}")
            tasks.append(task)
            if at["state"] != "pending":
                status = Status.RUNNING if at["state"] == "running" else Status.RELEASING
                places[task.id] = Place(status, at["node"], tuple(at["groups"]))
            if at["state"] != "releasing":
                for name in queue_path(row["queue"], parents):
                    for resource, amount in zip(RESOURCES, task.vector, strict=True):
                        requests[name][resource] += amount / (1e6 if resource == "memory" else 1.0)
        firm = row["priority"] >= NON_PREEMPTIBLE
        created = f"{10**6 - row['age']:08}"
        least = {"": row["min"]}
        jobs.append(Job(row["name"], row["queue"], tuple(tasks), least, row["priority"], not firm, created))
    claims = [
        QueueClaim(
            queue["name"],
            queue["parent"],
            queue["priority"],
            f"{number:04}",
            {
                "gpu": QueueShare(queue["quota"], queue["limit"], queue["weight"]),
                "cpu": QueueShare(queue["cpuquota"], queue["cpulimit"], 1),
                "memory": QueueShare(-1, -1, 1),
            },
            requests[queue["name"]],
        )
        for number, queue in enumerate(case["queues"])
    ]
    return SchedulingSession(machines, jobs, QueueStates(claims, total), places)


def decisions(case: Mapping[str, Any]) -> Json:
    """The action that completes each pending job (empty: none), and the running tasks that lose their place or move."""
    session = session_of(case)
    cycle = Cycle(session)
    started = {task: place for task, place in session.places.items() if place.status is Status.RUNNING}
    outcomes: dict[str, str] = {}
    for action in ACTIONS:
        cycle.run([action])
        for row in case["jobs"]:
            waits = any(task["state"] == "pending" for task in row["tasks"])
            job = session.jobs[row["name"]]
            if waits and not outcomes.get(job.id):
                outcomes[job.id] = action if session.satisfied(job) else ""
    return {
        "outcomes": outcomes,
        "lost": sorted(t for t in session.places if session.places[t].status is Status.RELEASING),
        "moved": sorted(t for t in started if session.places[t].status is Status.PIPELINED),
    }


def _requests(row: Mapping[str, Any]) -> PodRequests:
    fraction = row["gpus"] if 0 < row["gpus"] < 1 else None
    gpus = 0 if fraction else int(row["gpus"])
    return PodRequests(
        gpus=gpus,
        fraction=fraction,
        gpu_memory=None,
        devices=row["devices"] if fraction else gpus,
        mig={},
        cpu=row["cpu"] * 1000,
        memory=row["memory"],
        others={},
    )
