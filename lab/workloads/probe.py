"""Results of the probe (kind/probe), which reports a container's GPUs from inside.

All workload pods contain it: ``facts_in`` runs it in any of them. Pods made by ``serving`` also serve HTTP.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lab.errors import ApiFailed, WaitTimeout
from lab.kube.proxy import Proxy
from lab.objects.views import PodView
from lab.workloads.namespace import WorkloadNamespace

PORT = 8000  # port of its server


Json = dict[str, Any]


@dataclass(frozen=True)
class ProbedDevice:
    """A GPU as reported by NVML in the container."""

    index: int
    uuid: str
    name: str
    memory: int  # MiB of the whole GPU, regardless of the container's share
    used: int  # MiB in use on the GPU, by any process
    error: str  # NVML's error for it, such as ``GPU is lost``, or empty


@dataclass(frozen=True)
class ProbeFacts:
    """Report of the probe in a container."""

    hostname: str
    pid: int
    env: Mapping[str, str]  # the variables about GPUs that are set
    device_files: tuple[str, ...]  # all /dev/nvidia*, control devices included
    driver: str  # version of the driver; empty without NVML
    error: str  # NVML's error, or empty
    devices: tuple[ProbedDevice, ...]

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(device.uuid for device in self.devices)

    @classmethod
    def of(cls, report: Json) -> ProbeFacts:
        """The report of ``GET /facts`` or ``probe facts``. Raises KeyError for other data."""
        nvml = report["nvml"]
        return cls(
            hostname=report["hostname"],
            pid=report["pid"],
            env={name: value for name, value in report["env"].items() if value is not None},
            device_files=tuple(report["device_files"]),
            driver=nvml["driver"] or "",
            error=nvml["error"] or "",
            devices=tuple(
                ProbedDevice(
                    index=row["index"],
                    uuid=row["uuid"] or "",
                    name=row["name"] or "",
                    memory=row["memory_total_mib"] or 0,
                    used=row["memory_used_mib"] or 0,
                    error=row["error"] or "",
                )
                for row in report["devices"]
            ),
        )


def serving(pod: Json) -> Json:
    """A pod of ``lab.workloads.pods`` with the probe's server instead of its shell; it is Ready when it serves."""
    changed = copy.deepcopy(pod)
    (container,) = changed["spec"]["containers"]
    del container["command"]
    container |= {
        "args": ["serve"],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1},
    }
    return changed


def server_in(place: WorkloadNamespace, pod: PodView) -> Proxy:
    """Access to the server of a running host pod through the API server."""
    return Proxy(place.host, "Pod", pod.namespace, pod.name, PORT)


def facts_in(place: WorkloadNamespace, pod: PodView) -> ProbeFacts:
    """The report of the first container of a running host pod. Raises ApiFailed if its image lacks the probe."""
    report = place.host.exec(pod.name, pod.namespace, ["probe", "facts"])
    try:
        return ProbeFacts.of(json.loads(report))
    except (ValueError, KeyError, TypeError) as error:
        raise ApiFailed(
            f"pod {pod.namespace}/{pod.name}: unexpected output of 'probe facts'",
            evidence=report.splitlines()[:5],
            fix="check that the container has the lab's image",
        ) from error


def facts_when(
    place: WorkloadNamespace, pod: PodView, until: Callable[[ProbeFacts], bool], *, timeout: float, what: str
) -> ProbeFacts:
    """Poll the report until ``until`` is true; nothing inside a container causes an event of the API server.

    ``what`` describes the condition in errors. Raises WaitTimeout with the last report, ApiFailed, Interrupted.
    """
    facts = place.host.poll(lambda: facts_in(place, pod), until=until, timeout=timeout, interval=0.5)
    if until(facts):
        return facts
    raise WaitTimeout(
        f"{what}: not within {timeout:g} s",
        evidence=[f"{pod.namespace}/{pod.name} reports {facts}"],
        fix=f"run the probe: {place.host.kubectl('exec', pod.name, '-n', pod.namespace, '--', 'probe', 'facts')}",
    )
