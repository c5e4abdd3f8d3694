"""Step ``gpu-assigner``: a pod that assigns simulated GPUs of an existing cluster to KAI's reservation pods.

KAI lets pods share a GPU by a reservation pod, which finds out its GPU through NVML. Simulated GPUs of an existing
cluster have no NVML, so a Deployment of the lab tells the pod (``lab.watch.gpu_assigner``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from lab.config import LabSpec
from lab.config.rules import gpus_are_shared
from lab.engine.step import Effect, Observed
from lab.errors import StepFailed
from lab.gpu.pools import pools_by_node
from lab.gpu.simulated.devices import gpus_of
from lab.kai.names import RESERVATION_APP
from lab.kube import OWNER_LABEL
from lab.kube.describe import title_of
from lab.kube.ownership import is_own, refuse_foreign
from lab.kube.readiness import is_ready
from lab.paths import assets
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.supply.pull_secrets import copy_pull_secrets
from lab.supply.registry import mirrored
from lab.watch.gpu_assigner import node_argument

_NAME = "gpu-assigner"
_READY_SECONDS = 180.0
_GONE_SECONDS = 120.0


def assigner_image(spec: LabSpec) -> str:
    """The image of the assigner; empty if the lab needs none."""
    needed = not spec.cluster.own and bool(pools_by_node(spec)) and gpus_are_shared(spec)
    return mirrored(spec.gpu.image, spec.supply.mirrors) if needed and spec.gpu.image else ""


def namespace(lab: str) -> str:
    """The namespace of a lab's assigner, and the name of its role in KAI's namespace."""
    return f"kailab-gpus-{lab}"


@dataclass(frozen=True)
class GpuAssigner(LabStep):
    """The assigner's Deployment, and its Role in the namespace of KAI's reservation pods."""

    spec: LabSpec
    needs: tuple[str, ...] = ("gpu-nodes", "kai")
    id: str = _NAME
    title: str = "Assignment of simulated GPUs"

    def wanted(self) -> object:
        return pools_by_node(self.spec), assigner_image(self.spec), self.spec.supply.pull_secrets

    def creates(self, ctx: LabContext) -> tuple[dict[str, Any], ...]:
        return tuple(self._documents())

    def effects(self) -> tuple[Effect, ...]:
        space = namespace(self.spec.name)
        what = f"Deployment {space}/{_NAME}, which annotates KAI's reservation pods; Role {space} in {RESERVATION_APP}"
        return (Effect("cluster", what, "kailab down"),)

    def observe(self, ctx: LabContext) -> Observed:
        cluster, wanted = ctx.cluster(), self._documents()
        found = [cluster.get(doc["kind"], doc["metadata"]["name"], doc["metadata"].get("namespace")) for doc in wanted]
        if found[0] is None:
            return Observed.absent()
        diff = [f"{title_of(doc)} is missing" for doc, seen in zip(wanted, found, strict=True) if seen is None]
        if (deployment := found[-1]) is not None:
            have, want = (one["spec"]["template"]["spec"]["containers"][0] for one in (deployment, wanted[-1]))
            diff += [f"its {key} differs" for key in ("image", "args") if have.get(key) != want[key]]
            if not is_ready(deployment):
                diff.append("its Deployment is not ready")
        return Observed.drifted("differs from the lab file", diff) if diff else Observed.ready()

    def apply(self, ctx: LabContext) -> None:
        """Raises StepFailed without KAI's namespace of reservation pods, and WaitTimeout if the pod does not run."""
        cluster, docs = ctx.cluster(), self._documents()
        if cluster.get("Namespace", RESERVATION_APP) is None:
            raise StepFailed(
                f"the cluster's KAI has no namespace {RESERVATION_APP}, so it gives pods no fractions of GPUs",
                fix="set kai.gpuSharing: false, or let its owner switch global.gpuSharing on",
            )
        refuse_foreign(cluster, self.spec.name, docs)
        cluster.apply(docs[:1])
        copy_pull_secrets(cluster, self.spec, namespace(self.spec.name))
        cluster.apply(docs[1:])
        cluster.wait_ready("Deployment", _NAME, namespace(self.spec.name), _READY_SECONDS)

    def undo(self, ctx: LabContext) -> None:
        cluster, name = ctx.cluster(), namespace(self.spec.name)
        for kind in ("RoleBinding", "Role"):
            if (found := cluster.get(kind, name, RESERVATION_APP)) is not None and is_own(found, self.spec.name):
                cluster.delete(kind, name, RESERVATION_APP)
        if (found := cluster.get("Namespace", name)) is not None and is_own(found, self.spec.name):
            cluster.delete("Namespace", name, wait=_GONE_SECONDS)

    def _documents(self) -> list[dict[str, Any]]:
        """The shipped manifest with the lab's names, label, image and GPUs; namespace first, Deployment last."""
        name = namespace(self.spec.name)
        text = (assets("manifests") / "gpu" / "assigner.yaml").read_text().replace("kailab-gpus", name)
        docs = list(yaml.safe_load_all(text))
        template = docs[-1]["spec"]["template"]
        for meta in (*(doc["metadata"] for doc in docs), template["metadata"]):
            meta.setdefault("labels", {})[OWNER_LABEL] = self.spec.name
        (container,) = template["spec"]["containers"]
        container["image"] = assigner_image(self.spec)
        container["args"] = [
            node_argument(node, [gpu.uuid for gpu in gpus_of(self.spec.name, node, self.spec.gpu)])
            for node in pools_by_node(self.spec)
        ]
        if secrets := [{"name": secret} for secret in self.spec.supply.pull_secrets]:
            template["spec"]["imagePullSecrets"] = secrets
        return docs
