"""Keeps pods that share a GPU out while a tenant's KAI has no webhooks; why, is in the policy's manifest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.errors import StepFailed
from lab.kube import Cluster
from lab.tenants.isolation import admission_policy

NAME = "kailab-kai-is-changed"
"""Name of the policy and of its binding."""

_CHECK = "kailab-change-check"
"""A dry run of a pod of this name is refused by the policy; see the manifest."""

_FORCE_SECONDS = 20.0


@contextmanager
def none_unjudged(cluster: Cluster, lab: str) -> Iterator[None]:
    """Refuse pods that ask for a part of a GPU, from when this is in force until the end.

    A change that was killed leaves the policy: those pods are refused, with its words, until the change is done again.

    Args:
        cluster: the tenant's.
        lab: name of the lab, for the label.

    Raises:
        StepFailed: the API server does not act by it in time; it is taken away again, and nothing was changed.
        ApiFailed: the server refused.
    """
    cluster.apply(admission_policy.documents(lab, NAME))
    try:
        _wait(cluster)
        yield
    finally:
        admission_policy.take_away(cluster, lab, NAME)


def _wait(cluster: Cluster) -> None:
    def in_force() -> bool:
        return admission_policy.in_force(cluster, "default", NAME, _CHECK)

    if not cluster.poll(in_force, timeout=_FORCE_SECONDS, interval=0.2):
        raise StepFailed(
            f"the API server does not act by the policy {NAME} after {_FORCE_SECONDS:.0f} s",
            fix=f"see it: {cluster.kubectl('get', 'validatingadmissionpolicy', NAME, '-o', 'yaml')}",
        )
