"""Rules about volume claims that are not bound."""

from __future__ import annotations

from lab.explain.component_messages import of_event
from lab.explain.pod_context import PodContext
from lab.explain.rule import UNBOUND, rule
from lab.findings import Certainty, Finding
from lab.objects.fields import annotations_of, parts
from lab.objects.workload import ClaimView

_VOLUME_WORDS = (
    "PersistentVolumeClaim",
    "persistentvolumeclaim",
    "persistent volumes to bind",
    "VolumeBinding",
    "storageclass",
)
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def _claims(ctx: PodContext) -> list[ClaimView]:
    """Return the existing claims that the pod mounts."""
    volumes = ctx.spec.get("volumes") or []
    names = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in volumes]
    names += [f"{ctx.pod.name}-{v.get('name')}" for v in volumes if v.get("ephemeral")]
    found = [ctx.snapshot.get("PersistentVolumeClaim", name, ctx.pod.namespace) for name in names if name]
    return [ClaimView.of(obj) for obj in found if obj is not None]


@rule(
    "volumes.claim-unbound",
    UNBOUND,
    "Kubernetes, pkg/scheduler/framework/plugins/volumebinding; KAI uses the same plugin",
)
def claim_unbound(ctx: PodContext) -> Finding | None:
    """A PersistentVolumeClaim is not bound: no class, no provisioner, or no suitable volume."""
    unbound = [claim for claim in _claims(ctx) if claim.phase != "Bound"]
    messages = [m.line for m in ctx.verdicts if any(word in m.text for word in _VOLUME_WORDS)]
    if not unbound or not ctx.schedules or (ctx.verdicts and not messages):
        return None
    claim = unbound[0]
    storage_class = ctx.snapshot.get("StorageClass", claim.storage_class or "") or {}
    if not messages and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
        return None  # Pending by design: the class creates the volume once the pod has a node
    why, action = _why(ctx, claim)
    events = [of_event(e).line for e in ctx.snapshot.events_about(claim.uid)[-2:]]
    return Finding(
        f"the PersistentVolumeClaim {claim.name} of {ctx.title} is {claim.phase or 'new'}: {why}",
        action,
        (*messages[:1], *events),
        Certainty.CERTAIN if messages else Certainty.LIKELY,
    )


def _why(ctx: PodContext, claim: ClaimView) -> tuple[str, str]:
    describe = ctx.kubectl("describe", "pvc", claim.name, "-n", claim.namespace)
    classes = [parts(obj)[0] for obj in ctx.snapshot.of("StorageClass")]
    names = [meta.get("name", "") for meta in classes]
    known = ", ".join(names) or "none exist"
    if claim.storage_class == "":
        return "it wants a volume without a class, and none fits", f"create a PersistentVolume for it: {describe}"
    if ctx.snapshot.has("StorageClass"):
        if claim.storage_class is not None and claim.storage_class not in names:
            return f"its StorageClass {claim.storage_class} does not exist", f"use an existing one: {known}"
        if claim.storage_class is None and not any(annotations_of(m).get(_DEFAULT_CLASS) == "true" for m in classes):
            return "it names no StorageClass, and no default exists", f"name one of: {known}"
    return "its class has created no volume", f"read the messages of its provisioner: {describe}"
