"""Volume claims that nothing fulfils."""

from __future__ import annotations

from lab.explain.component_messages import of_event
from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import annotations_of, parts
from lab.objects.workload import ClaimView

_TALK = (
    "PersistentVolumeClaim",
    "persistentvolumeclaim",
    "persistent volumes to bind",
    "VolumeBinding",
    "storageclass",
)
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _claims(case: PodContext) -> list[ClaimView]:
    """The claims that the pod mounts and that exist."""
    meta, spec, _ = parts(case.pod_obj)
    names = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in spec.get("volumes") or []]
    names += [f"{meta.get('name')}-{v.get('name')}" for v in spec.get("volumes") or [] if v.get("ephemeral")]
    found = [case.world.get("PersistentVolumeClaim", name, case.pod.namespace) for name in names if name]
    return [ClaimView.of(obj) for obj in found if obj is not None]


@rule(
    "volumes.claim-unbound",
    "A PersistentVolumeClaim is not bound",
    UNBOUND,
    "Kubernetes, pkg/scheduler/framework/plugins/volumebinding; KAI uses the same plugin",
)
def claim_unbound(case: PodContext) -> Finding | None:
    """No class, no provisioner, or no volume that fits."""
    open_claims = [claim for claim in _claims(case) if claim.phase != "Bound"]
    told = [saying.line for saying in case.verdicts if any(word in saying.text for word in _TALK)]
    if not open_claims or not case.schedules or (case.verdicts and not told):
        return None
    claim = open_claims[0]
    if not told and _waits_for_pod(case, claim):
        return None
    why, action = _why(case, claim)
    events = [of_event(e).line for e in case.world.events_about(claim.uid)[-2:]]
    return Finding(
        f"the PersistentVolumeClaim {claim.name} of {case.title} is {claim.phase or 'new'}: {why}",
        action,
        (*told[:1], *events),
        Certainty.CERTAIN if told else Certainty.LIKELY,
    )


def _waits_for_pod(case: PodContext, claim: ClaimView) -> bool:
    """Whether the claim's class makes the volume only when the pod has a node: then it is Pending by design."""
    found = case.world.get("StorageClass", claim.storage_class or "")
    return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"


def _why(case: PodContext, claim: ClaimView) -> tuple[str, str]:
    look = case.kubectl("describe", "pvc", claim.name, "-n", claim.namespace)
    classes = [parts(obj) for obj in case.world.of("StorageClass")]
    names = [meta.get("name", "") for meta, _, _ in classes]
    if claim.storage_class == "":
        return "it wants a volume without a class, and none fits", f"make a PersistentVolume for it: {look}"
    if claim.storage_class is not None and claim.storage_class not in names and case.world.has("StorageClass"):
        known = ", ".join(names) or "none exist"
        return f"its StorageClass {claim.storage_class} does not exist", f"take one that does: {known}"
    default = any(annotations_of(meta).get(_DEFAULT_CLASS) == "true" for meta, _, _ in classes)
    if claim.storage_class is None and not default and case.world.has("StorageClass"):
        return "it names no StorageClass, and none is the default", f"name one of: {', '.join(names) or 'none exist'}"
    return "its class has made no volume", f"see what its provisioner says: {look}"
