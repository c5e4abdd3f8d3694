"""A temporary admission pod that answers KAI's webhooks while a version starts, some 11 s before the real one.

Until admission is Ready, the API server denies pods for KAI, and the pod-grouper cannot write to pods: nothing is
scheduled. Its readiness probe first succeeds after 10 s (initialDelaySeconds 5, every 10 s:
pkg/operator/operands/admission/resources.go, KAI 0.9 to 0.16), and KAI's operator reverts changes of the probe at once
(measured with 0.9.8 and 0.16.8). So a copy of admission's pod, probed every second, is a backend of the same Service
until the real one is Ready.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import Any

from lab.errors import LabError
from lab.kube import OWNER_LABEL, Cluster
from lab.tools.background import Background

Json = dict[str, Any]

BRIDGE = "kailab-admission"
"""Name of that pod. The next upgrade deletes one that a kill left, with KAI's own pods."""

_TIMEOUT = 120.0
_QUICK = {"initialDelaySeconds": 0, "periodSeconds": 1}


class AdmissionBridge(Background):
    """A context manager around the installation of KAI; call ``drain`` when all of KAI is Ready.

    Args:
        cluster: where KAI is installed.
        lab: name of the lab, for the pod's label.
        namespace: KAI's namespace.
        deployment: the Deployment whose webhooks mutate pods.
    """

    def __init__(self, cluster: Cluster, lab: str, namespace: str, deployment: str) -> None:
        # the Deployment may never appear, and the end of the block does not wait for it
        super().__init__(self._create, "admission bridge", join=0, cleanup=self._delete)
        self._cluster, self._lab = cluster, lab
        self._namespace, self._name = namespace, deployment

    def drain(self) -> None:
        """Route new connections to other pods; open ones are served until the end.

        Requests that a Service still routes to a deleted pod wait for the webhook's timeout of 10 s.
        """
        self.stopping.set()
        if self._cluster.get("Pod", BRIDGE, self._namespace) is not None:
            self._cluster.patch("Pod", BRIDGE, {"metadata": {"labels": {"app": BRIDGE}}}, self._namespace)

    def _delete(self) -> None:
        self._cluster.delete("Pod", BRIDGE, self._namespace, grace=1)

    def _create(self, stopping: threading.Event) -> None:
        try:
            found = self._cluster.wait(
                "Deployment",
                bool,
                namespace=self._namespace,
                fields=f"metadata.name={self._name}",
                timeout=_TIMEOUT,
                fail=lambda _: "the installation has ended" if stopping.is_set() else None,
                what=f"deployment {self._name} exists",
            )
            if (pod := bridge_pod(found[0], self._lab)) and not stopping.is_set():
                self._cluster.create(pod)
        except LabError:
            return  # without the bridge the upgrade only takes longer


def bridge_pod(deployment: Mapping[str, Any], lab: str) -> Json | None:
    """A pod of the Deployment with quick readiness probes; None if its own pods have them already."""
    meta, template = deployment["metadata"], copy.deepcopy(deployment["spec"]["template"])
    spec = template["spec"]
    probes = [container["readinessProbe"] for container in spec["containers"] if container.get("readinessProbe")]
    if all(_QUICK.items() <= probe.items() for probe in probes):
        return None
    for probe in probes:
        probe.update(_QUICK)
    # these keep replicas apart that all stay
    spec.pop("affinity", None)
    spec.pop("topologySpreadConstraints", None)
    labels = {**template.get("metadata", {}).get("labels", {}), OWNER_LABEL: lab}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": BRIDGE, "namespace": meta["namespace"], "labels": labels},
        "spec": {**spec, "terminationGracePeriodSeconds": 1},
    }
