"""Memory, CPU and API load of 'kailab watch' in a running lab: as it is, with many pods, and while pods come and go.

    python -m scripts.bench.watch_load --lab NAME --pods 1000

The watch is installed (kailab watch install). The pods have a scheduling gate, so that they need no node; KAI creates a
PodGroup for each. They are in a namespace of their own, which is removed at the end. Figures are the watch's metrics.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from lab.kube import Cluster
from lab.kube.proxy import Proxy
from lab.session.lab import Lab
from lab.tools.background import Background
from lab.watch.metrics import series_of
from lab.watch.names import NAME, PORT
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import cpu_pod

GATE = {"schedulingGates": [{"name": "kailab.dev/watch-load"}]}
SAMPLE_SECONDS = 5.0

Json = dict[str, Any]
Figures = dict[str, float]


def main() -> None:
    """Measure and print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", required=True)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=180.0, help="duration of each phase")
    parser.add_argument("--changes", type=float, default=100.0, help="pods replaced per minute in the last phase")
    args = parser.parse_args()
    lab = Lab.attach(args.lab)
    phases: dict[str, Figures] = {"as it is": measured(lab.cluster, args.seconds)}
    with pods(lab, args.pods) as space:
        phases[f"{args.pods} pods are created"] = measured(lab.cluster, args.seconds)
        phases[f"{args.pods} pods"] = measured(lab.cluster, args.seconds)
        with Background(lambda stopping: replace(space, args.pods, 60 / args.changes, stopping.wait), "changes"):
            phases[f"{args.changes:g} pods replaced per minute"] = measured(lab.cluster, args.seconds)
    phases["pods are gone"] = measured(lab.cluster, args.seconds)
    names = list(phases["as it is"])
    print(" | ".join(["phase", *names]))
    for phase, figures in phases.items():
        print(" | ".join([phase, *(f"{figures[name]:.1f}" for name in names)]))
    print(json.dumps(phases))


@contextmanager
def pods(lab: Lab, number: int) -> Iterator[WorkloadNamespace]:
    """Pods with a scheduling gate; the block begins when they exist."""
    space = WorkloadNamespace.open(lab.spec.name, lab.cluster, "watch-load")
    try:
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda at: space.submit(gated(f"gated-{at}")), range(number)))
        print(f"{number} pods created in {time.monotonic() - began:.0f} s", flush=True)
        yield space
    finally:
        lab.cluster.delete("Namespace", space.namespace, wait=600)


def gated(name: str) -> Json:
    """A pod that no scheduler may place."""
    pod = cpu_pod(name)
    return {**pod, "spec": {**pod["spec"], **GATE}}


def replace(space: WorkloadNamespace, number: int, interval: float, pause: Callable[[float], bool]) -> None:
    """Delete and create pods, one after the other, until ``pause`` returns true."""
    at = 0
    while not pause(interval):
        space.cluster.delete("Pod", f"gated-{at}", space.namespace, grace=0)
        space.submit(gated(f"gated-{at + number}"))
        at += 1


def measured(cluster: Cluster, seconds: float) -> Figures:
    """The load in a time; memory and durations are the highest that were sampled."""
    first = last = read(cluster)
    memory = duration = 0.0
    while last["at"] - first["at"] < seconds:
        time.sleep(SAMPLE_SECONDS)
        last = read(cluster)
        memory = max(memory, last["process_resident_memory_bytes"])
        duration = max(duration, last["kailab_evaluation_duration_seconds"])
    minutes = (last["at"] - first["at"]) / 60
    per_minute = {name: (last[name] - first.get(name, 0.0)) / minutes for name in last}
    requests = {name: value for name, value in per_minute.items() if name.startswith("kailab_api_requests_total")}
    found = {
        "objects": sum(value for name, value in last.items() if name.startswith("kailab_objects")),
        "MiB resident": memory / 2**20,
        "CPU s/min": per_minute["process_cpu_seconds_total"],
        "evaluation ms": duration * 1000,
        "requests/min": sum(requests.values()),
        "KiB/min": per_minute["kailab_api_received_bytes_total"] / 1024,
    }
    print({name: round(value, 1) for name, value in found.items()}, flush=True)
    return found


def read(cluster: Cluster) -> Figures:
    """The watch's metrics, by name and first label; ``at`` is the time of the read."""
    text = Proxy(cluster, "Service", NAME, NAME, PORT).raw("GET", "/metrics", patience=20).decode()
    series = {" ".join([name, *list(labels.values())[:1]]): value for name, labels, value in series_of(text)}
    return {"at": time.monotonic(), **series}


if __name__ == "__main__":
    main()
