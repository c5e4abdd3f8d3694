"""What the lab file leaves open about an existing cluster: GPUs, KAI, Kubernetes. Only reads."""

from __future__ import annotations

from lab.config import LabSpec, queue_rules
from lab.config.budget import with_budget
from lab.errors import SpecError
from lab.gpu.pools import RUNTIME_CLASS
from lab.gpu.present import describe, gpu_resources
from lab.kube import Cluster
from lab.kube.ownership import is_own, owner_of
from lab.objects.views import NodeView
from lab.session.lab import KAI_SERVES
from lab.steps import kai


def resolve_existing(spec: LabSpec, cluster: Cluster) -> tuple[LabSpec, dict[str, str], tuple[str, ...]]:
    """Replace ``gpu.mode: auto``, the settings of an adopted KAI and the version of Kubernetes.

    Returns:
        The spec, facts, and notices: settings that an adopted KAI lacks.

    Raises:
        SpecError: the lab file and the cluster contradict each other.
        ApiFailed: the cluster refuses, or does not answer.
    """
    nodes = [NodeView.of(node) for node in cluster.list("Node")]
    kubernetes = cluster.version().removeprefix("v").partition("+")[0].partition("-")[0]
    mode = spec.gpu.mode
    if mode == "auto":
        mode = "present" if any(map(gpu_resources, nodes)) else "none"
    runtime_class = spec.gpu.runtime_class
    if mode == "present" and runtime_class is None and cluster.get("RuntimeClass", RUNTIME_CLASS) is not None:
        runtime_class = RUNTIME_CLASS
    update: dict[str, object] = {
        "gpu": spec.gpu.model_copy(update={"mode": mode, "runtime_class": runtime_class}),
        "cluster": spec.cluster.model_copy(update={"kubernetes": kubernetes}),
    }
    section, serves, lacking = _kai(spec, cluster)
    update["kai"] = section
    facts = {"context": spec.cluster.context or "", "server": cluster.server, "nodes": str(len(nodes))}
    if mode == "present":
        facts["gpus"] = describe(nodes)
    if serves:
        facts[KAI_SERVES] = serves
    resolved = with_budget(spec.model_copy(update=update))
    queues = () if spec.scheduler == "default" or spec.kai.manage == "none" else resolved.queues
    for rule in queue_rules.levels(queues, ("queues",), resolved.kai.version, ("kai", "version")):
        raise SpecError(
            f"queues: {rule.what}",
            evidence=[f"queue {spec.name}, which has the lab's budget, is above the queues of the lab file"],
            fix="give no queue of the lab file a parent",
        )
    return resolved, facts, lacking


def _kai(spec: LabSpec, cluster: Cluster) -> kai.AdoptedSettings:
    """KAI's section: of an adopted KAI the version that runs, and its settings. Raises SpecError."""
    if spec.scheduler == "default" or spec.kai.manage == "none":
        return kai.AdoptedSettings(spec.kai)
    found = kai.find_kai(cluster)
    if spec.kai.manage == "adopt":
        if found is None:
            raise SpecError(
                "kai.manage is 'adopt', but the cluster has no KAI",
                fix="set kai.manage: install, or scheduler: default",
            )
        if not found.version:
            raise SpecError(
                f"the version of the KAI in namespace {found.namespace} is unknown: its images have no release as tag",
                fix="set scheduler: default to do without it",
            )
        return kai.adopted_settings(cluster, spec.kai.model_copy(update={"version": found.version}))
    space = cluster.get("Namespace", found.namespace) if found else None
    if found is not None and space is not None and not is_own(space, spec.name):
        raise SpecError(
            f"the cluster has KAI {found.version} in namespace {found.namespace}, which {owner_of(space)}",
            fix="set kai.manage: adopt to use it as it is",
        )
    return kai.AdoptedSettings(spec.kai)
