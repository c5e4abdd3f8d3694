"""The frozen view of a BindRequest: how KAI's scheduler tells its binder where a pod goes."""

from __future__ import annotations

from dataclasses import dataclass

from lab.objects.fields import Obj, number, parts


@dataclass(frozen=True)
class BindRequestView:
    """A BindRequest (scheduling.run.ai/v1alpha2), named like its pod and removed soon after the bind.

    Source: pkg/apis/scheduling/v1alpha2/bindrequest_types.go, KAI 0.7.11 to 0.17.0.
    """

    name: str
    namespace: str
    uid: str
    pod: str
    node: str
    """The node that the scheduler chose."""
    resource_type: str
    """Regular or Fraction."""
    gpu_groups: tuple[str, ...]
    """The shared GPUs it is to be on; a group without a reservation pod gets one made."""
    gpus: int
    """How many devices."""
    portion: float
    """Fraction of each device; 1 for whole ones."""
    phase: str
    """Pending, Succeeded or Failed; empty before the binder has seen it."""
    reason: str
    failed_attempts: int
    backoff_limit: int | None
    """Retries before the binder gives up; None where the scheduler set no bound."""

    @classmethod
    def of(cls, obj: Obj) -> BindRequestView:
        meta, spec, status = parts(obj)
        received = spec.get("receivedGPU") or {}
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            pod=spec.get("podName", ""),
            node=spec.get("selectedNode", ""),
            resource_type=spec.get("receivedResourceType", ""),
            gpu_groups=tuple(spec.get("selectedGPUGroups") or ()),
            gpus=int(received.get("count") or 0),
            portion=number(received.get("portion")) or 0.0,
            phase=status.get("phase", ""),
            reason=status.get("reason", ""),
            failed_attempts=int(status.get("failedAttempts") or 0),
            backoff_limit=None if spec.get("backoffLimit") is None else int(spec["backoffLimit"]),
        )
