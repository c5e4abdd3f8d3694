"""Assigns simulated GPUs to KAI's reservation pods: ``python3 -m lab.watch.gpu_assigner`` in a pod of the cluster.

A reservation pod asks NVML for the UUID of its GPU and writes it as an annotation of itself, unless it has one when it
starts (KAI 0.7.11 to 0.17.0, cmd/resourcereservation/app/app.go). On nodes without NVML this program writes it first.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from lab.errors import ApiFailed, Interrupted, LabError, WaitTimeout
from lab.kai.names import RESERVATION_APP, RESERVED_GPU_ANNOTATION
from lab.kube import Cluster
from lab.kube.in_cluster import InClusterTransport, own_cluster
from lab.objects.fields import annotations_of, parts
from lab.watch.log import JsonLog, stdout_log

_SECONDS = 300.0
"""Length of one watch; then the pods are listed again."""

Json = dict[str, Any]


def node_argument(node: str, uuids: Iterable[str]) -> str:
    """The argument that gives a node its GPUs."""
    return f"--node={node}={','.join(uuids)}"


def assignments(pods: Sequence[Json], gpus: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Name of a reservation pod without a GPU → UUID of a GPU of its node that no other pod has.

    Args:
        pods: the reservation pods.
        gpus: node → UUIDs of its simulated GPUs. Pods on other nodes are not ours.
    """
    free = {node: list(uuids) for node, uuids in gpus.items()}
    waiting: dict[str, str] = {}
    for pod in pods:
        meta, spec, status = parts(pod)
        node, uuid = spec.get("nodeName", ""), annotations_of(meta).get(RESERVED_GPU_ANNOTATION)
        if node not in free or status.get("phase") in ("Failed", "Succeeded"):
            continue
        if not uuid:
            waiting[meta["name"]] = node
        elif uuid in free[node]:
            free[node].remove(uuid)
    return {name: free[node].pop(0) for name, node in waiting.items() if free[node]}


def assign(cluster: Cluster, gpus: Mapping[str, Sequence[str]], log: JsonLog, seconds: float = _SECONDS) -> None:
    """Wait up to ``seconds`` for reservation pods without a GPU, and give each its UUID. Raises ApiFailed."""
    with suppress(WaitTimeout):
        pods = cluster.wait(
            "Pod",
            lambda found: bool(assignments(found, gpus)),
            namespace=RESERVATION_APP,
            timeout=seconds,
            what="a reservation pod needs a GPU",
        )
        for name, uuid in assignments(pods, gpus).items():
            try:
                cluster.patch(
                    "Pod", name, {"metadata": {"annotations": {RESERVED_GPU_ANNOTATION: uuid}}}, RESERVATION_APP
                )
            except ApiFailed as error:
                if error.status != 404:  # deleted meanwhile
                    raise
            else:
                log("assigned", pod=name, gpu=uuid)


def main() -> int:
    """Assign GPUs until SIGTERM; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m lab.watch.gpu_assigner", description=main.__doc__)
    parser.add_argument("--node", action="append", default=[], metavar="NAME=UUID,…", help="a node and its GPUs")
    named = (text.partition("=") for text in parser.parse_args().node)
    gpus = {node: uuids.split(",") for node, _, uuids in named}
    log, stopping = stdout_log(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        cluster = own_cluster(InClusterTransport())
        cluster.cancel = stopping
        log("assigning", nodes=sorted(gpus))
        while True:
            assign(cluster, gpus, log)
    except Interrupted:
        log("stopped")
    except LabError as error:
        log("error", what=error.what, evidence=error.evidence, next=error.fix)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
