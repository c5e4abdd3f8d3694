"""Lets KAI's webhooks answer as soon as they can while a version starts, instead of 11 s later.

Until admission is Ready, the API server refuses pods for KAI, and the pod-grouper cannot write to pods: nothing is
scheduled. Its own readiness probe first counts after 10 s (initialDelaySeconds 5, every 10 s:
pkg/operator/operands/admission/resources.go, KAI 0.9 to 0.16), and KAI's operator puts it back at once when somebody
changes it (seen with 0.9.8 and 0.16.8). So a pod like admission's own, asked every second, stands behind the same
Service until that one is Ready.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from lab.errors import LabError
from lab.kube import OWNER_LABEL, Cluster
from lab.tools.background import Background

Json = dict[str, Any]

BRIDGE = "kailab-admission"
"""Name of that pod. One that a killed change left goes with KAI's own pods at the next."""

_QUICK = {"initialDelaySeconds": 0, "periodSeconds": 1}


class AdmissionBridge(Background):
    """A context manager around an installation; call ``step_aside`` when all of KAI is Ready.

    Args:
        cluster: where KAI is installed.
        lab: name of the lab, for the pod's label.
        namespace: KAI's.
        deployment: the one whose webhooks judge pods.
        timeout: seconds after which nobody waits for it any more.
    """

    def __init__(self, cluster: Cluster, lab: str, namespace: str, deployment: str, timeout: float = 120.0) -> None:
        # what it waits for may never come, and nobody waits for that at the end
        super().__init__(self._create, "admission bridge", join=0)
        self._cluster, self._lab = cluster, lab
        self._namespace, self._name = namespace, deployment
        self._timeout = timeout

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        try:
            self._cluster.delete("Pod", BRIDGE, self._namespace, grace=1)
        except LabError:
            if error is None:
                raise
        super().__exit__(kind, error, trace)

    def step_aside(self) -> None:
        """Send no new connection to the pod any more; those that are open are served until the end.

        A Service that still leads to a pod when it goes costs whoever is sent there the webhook's 10 s.
        """
        self.stopping.set()
        if self._cluster.get("Pod", BRIDGE, self._namespace) is not None:
            self._cluster.patch("Pod", BRIDGE, {"metadata": {"labels": {"app": BRIDGE}}}, self._namespace)

    def _create(self, stopping: threading.Event) -> None:
        # Without it all goes as it would have gone, only later.
        try:
            found = self._cluster.wait(
                "Deployment",
                bool,
                namespace=self._namespace,
                fields=f"metadata.name={self._name}",
                timeout=self._timeout,
                fail=lambda _: "it is over" if stopping.is_set() else None,
                what=f"deployment {self._name} is there",
            )
            if (pod := bridge(found[0], self._lab)) and not stopping.is_set():
                self._cluster.create(pod)
        except LabError:
            return


def bridge(deployment: Mapping[str, Any], lab: str) -> Json | None:
    """A pod as the Deployment makes them, asked every second whether it is ready; None: its own are asked as soon."""
    meta, template = deployment["metadata"], copy.deepcopy(deployment["spec"]["template"])
    spec = template["spec"]
    probes = [container["readinessProbe"] for container in spec["containers"] if container.get("readinessProbe")]
    if all(_QUICK.items() <= probe.items() for probe in probes):
        return None
    for probe in probes:
        probe.update(_QUICK)
    # What keeps two of them apart is meant for replicas that both stay.
    spec.pop("affinity", None)
    spec.pop("topologySpreadConstraints", None)
    labels = {**template.get("metadata", {}).get("labels", {}), OWNER_LABEL: lab}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": BRIDGE, "namespace": meta["namespace"], "labels": labels},
        "spec": {**spec, "terminationGracePeriodSeconds": 1},
    }
