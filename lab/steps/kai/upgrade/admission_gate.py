"""Refuses fractional pods while KAI is reinstalled and has no webhooks; the policy's manifest says why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.errors import StepFailed
from lab.kube import Cluster
from lab.steps import admission_policy

NAME = "kailab-kai-is-changed"
"""Name of the policy and of its binding."""

_CHECK = "kailab-change-check"
"""The policy denies a dry run of a pod of this name; see the manifest."""

_FORCE_SECONDS = 20.0


def is_left(cluster: Cluster) -> bool:
    """Whether the policy or its binding exists: outside of ``fail_closed`` a killed change has left it."""
    kinds = (admission_policy.BINDING, admission_policy.POLICY)
    return any(cluster.get(kind, NAME) is not None for kind in kinds)


@contextmanager
def fail_closed(cluster: Cluster, lab: str) -> Iterator[None]:
    """Deny pods that request a fraction of a GPU in a cluster during the block.

    After a kill the policy stays and denies such pods until the change, or 'kailab up', is repeated.

    Raises:
        StepFailed: the API server does not enforce the policy in time; the policy is deleted, nothing else changed.
        ApiFailed: the server refused.
    """

    def in_force() -> bool:
        return admission_policy.in_force(cluster, "default", NAME, _CHECK)

    cluster.apply(admission_policy.documents(lab, NAME))
    try:
        if not cluster.poll(in_force, timeout=_FORCE_SECONDS, interval=0.2):
            raise StepFailed(
                f"the API server does not enforce policy {NAME} after {_FORCE_SECONDS:.0f} s",
                fix=f"inspect the policy: {cluster.kubectl('get', 'validatingadmissionpolicy', NAME, '-o', 'yaml')}",
            )
        yield
    finally:
        admission_policy.delete(cluster, lab, NAME)
