"""Keeps pods that share a GPU out while a tenant's KAI has no webhooks; why, is in the policy's manifest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lab.errors import ApiFailed, StepFailed
from lab.kube import OWNER_LABEL
from lab.paths import assets

if TYPE_CHECKING:
    from lab.kube import Cluster

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
NAME = "kailab-kai-is-changed"
"""Name of both objects."""

_CHECK, _WORDS = "kailab-change-check", "KAI is being changed in this tenant"
_FORCE_SECONDS = 20.0
_AGAIN = 0.2

Json = dict[str, Any]


class _NotYetError(Exception):
    """The API server does not act by the policy yet."""


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
    cluster.apply(documents(lab))
    try:
        _wait(cluster)
        yield
    finally:
        cluster.delete(BINDING, NAME)
        cluster.delete(POLICY, NAME)


def documents(lab: str) -> list[Json]:
    """The policy and its binding, labelled as the lab's."""
    import yaml

    text = (assets("manifests") / "tenants" / "kai-is-changed.yaml").read_text()
    docs: list[Json] = list(yaml.safe_load_all(text))
    return [{**doc, "metadata": {**doc["metadata"], "labels": {OWNER_LABEL: lab}}} for doc in docs]


def _wait(cluster: Cluster) -> None:
    from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

    retrying = Retrying(
        stop=stop_after_delay(_FORCE_SECONDS),
        wait=wait_fixed(_AGAIN),
        retry=retry_if_exception_type(_NotYetError),
        sleep=cluster.calls.pause,
        reraise=True,
    )
    try:
        retrying(_ask, cluster)
    except _NotYetError:
        raise StepFailed(
            f"the API server does not act by the policy {NAME} after {_FORCE_SECONDS:.0f} s",
            fix=f"see it: {cluster.kubectl('get', 'validatingadmissionpolicy', NAME, '-o', 'yaml')}",
        ) from None


def _ask(cluster: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _CHECK, "namespace": "default"},
        "spec": {"containers": [{"name": "none", "image": "none"}]},
    }
    path = cluster.kinds.named("Pod").path("default")
    try:
        cluster.calls.json("POST", path, title=f"dry run of pod {_CHECK}", query={"dryRun": "All"}, body=pod)
    except ApiFailed as error:
        if _WORDS in error.what:
            return
    raise _NotYetError
