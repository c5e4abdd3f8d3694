"""The probe of kind/probe: what it tells, from inside a container, about the GPUs there.

All workload pods have it: by ``facts_in`` any running one can be asked. A pod made by ``serving`` also serves HTTP.
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

PORT = 8000
"""Where it serves."""


Json = dict[str, Any]


@dataclass(frozen=True)
class ProbedDevice:
    """A GPU as NVML inside the container describes it."""

    index: int
    uuid: str
    name: str
    memory: int
    """MiB, all of the GPU's, whatever share the container has."""
    used: int
    """MiB in use on the GPU, by whomever."""
    error: str
    """Why NVML does not answer for it, such as ``GPU is lost``; empty when it does."""


@dataclass(frozen=True)
class ProbeFacts:
    """What a container sees."""

    hostname: str
    pid: int
    env: Mapping[str, str]
    """Of the variables that concern GPUs those that are set."""
    device_files: tuple[str, ...]
    """All /dev/nvidia*, control devices included."""
    driver: str
    """Its version; empty without NVML."""
    error: str
    """Why NVML does not answer; empty when it does."""
    devices: tuple[ProbedDevice, ...]

    @property
    def uuids(self) -> tuple[str, ...]:
        return tuple(device.uuid for device in self.devices)

    @classmethod
    def of(cls, told: Json) -> ProbeFacts:
        """The view of what ``GET /facts`` or ``probe facts`` gave. Raises KeyError when it is something else."""
        nvml = told["nvml"]
        return cls(
            hostname=told["hostname"],
            pid=told["pid"],
            env={name: value for name, value in told["env"].items() if value is not None},
            device_files=tuple(told["device_files"]),
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
                for row in told["devices"]
            ),
        )


def serving(pod: Json) -> Json:
    """A pod of ``lab.workloads.pods`` with the probe's server in place of its shell; Ready means that it serves."""
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
    """The server in a running pod, as the host has it, through the API server."""
    return Proxy(place.host, "Pod", pod.namespace, pod.name, PORT)


def facts_in(place: WorkloadNamespace, pod: PodView) -> ProbeFacts:
    """What the first container of a running pod sees; ``pod`` as the host has it.

    Raises:
        ApiFailed: its image is not the lab's, or it does not run.
    """
    told = place.host.exec(pod.name, pod.namespace, ["probe", "facts"])
    try:
        return ProbeFacts.of(json.loads(told))
    except (ValueError, KeyError, TypeError) as error:
        raise ApiFailed(
            f"pod {pod.namespace}/{pod.name}: its probe told something else than facts",
            evidence=told.splitlines()[:5],
            fix="see whether the container has the lab's image",
        ) from error


def facts_when(
    place: WorkloadNamespace, pod: PodView, until: Callable[[ProbeFacts], bool], *, timeout: float, what: str
) -> ProbeFacts:
    """Ask until ``until`` holds: what happens inside a container is no event for the API server.

    Args:
        place: where the pod is.
        pod: as the host has it.
        until: over the facts.
        timeout: seconds.
        what: the condition in words, for the error.

    Raises:
        WaitTimeout: it does not hold in time; the evidence is what was told last.
        ApiFailed: the pod cannot be asked.
        Interrupted: the run was cancelled.
    """
    facts = place.host.poll(lambda: facts_in(place, pod), until=until, timeout=timeout, interval=0.5)
    if until(facts):
        return facts
    raise WaitTimeout(
        f"{what}: not within {timeout:g} s",
        evidence=[f"{pod.namespace}/{pod.name} tells {facts}"],
        fix=f"ask it: {place.host.kubectl('exec', pod.name, '-n', pod.namespace, '--', 'probe', 'facts')}",
    )
