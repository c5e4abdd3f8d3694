"""The lab's admission policies: made, asked whether they are in force, taken away; why, is in their manifests."""

from __future__ import annotations

from typing import Any

from lab.errors import ApiFailed
from lab.kube import OWNER_LABEL, Cluster
from lab.paths import assets
from lab.snapshot.cluster_snapshot import ClusterSnapshot

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
NAME = "kailab-host-kai-keeps-off"
"""The policy that keeps the host's KAI off tenants with a KAI of their own; its binding has the same name."""

_CHECK = "kailab-policy-check"
"""A dry run of a pod of this name is refused by the policy, whoever asks; see the manifest."""

Json = dict[str, Any]


def documents(lab: str, name: str = NAME) -> list[Json]:
    """A policy and its binding, labelled as the lab's."""
    import yaml

    text = (assets("manifests") / "tenants" / f"{name.removeprefix('kailab-')}.yaml").read_text()
    docs: list[Json] = list(yaml.safe_load_all(text))
    return [{**doc, "metadata": {**doc["metadata"], "labels": {OWNER_LABEL: lab}}} for doc in docs]


def missing(world: ClusterSnapshot, lab: str) -> list[str]:
    """Which of the two objects is missing or not as the lab made it, in words. Pure but for the manifest."""
    lines = []
    for doc in documents(lab):
        kind, name = doc["kind"], doc["metadata"]["name"]
        there = world.get(kind, name)
        if there is None:
            lines.append(f"{kind} {name} is missing")
        elif not _within(doc["spec"], there.get("spec") or {}):
            lines.append(f"{kind} {name} has been changed")
    return lines


def take_away(cluster: Cluster, lab: str, name: str = NAME) -> None:
    """Delete binding and policy, where they are this lab's."""
    for kind in (BINDING, POLICY):
        there = cluster.get(kind, name) or {"metadata": {}}
        if (there["metadata"].get("labels") or {}).get(OWNER_LABEL) == lab:
            cluster.delete(kind, name)


def in_force(cluster: Cluster, namespace: str, name: str = NAME, check: str = _CHECK) -> bool:
    """Whether the API server acts by a policy in a namespace; it takes a second or two to, after a change.

    Asked with a dry run of the pod ``check``, so that nothing is made. Says nothing about the user names in it.

    Raises:
        ApiFailed: the server does not answer.
    """
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": check, "namespace": namespace},
        "spec": {"containers": [{"name": "none", "image": "none"}]},
    }
    path = cluster.kinds.named("Pod").path(namespace)
    title = f"dry run of pod {namespace}/{check}"
    try:
        cluster.calls.json("POST", path, title=title, query={"dryRun": "All"}, body=pod)
    except ApiFailed as error:
        if name in error.what:
            return True
        if error.status == 0:
            raise
    return False


def _within(want: Any, have: Any) -> bool:
    """Whether what is there holds all that is wanted; the API server adds defaults."""
    if isinstance(want, dict):
        return isinstance(have, dict) and all(key in have and _within(value, have[key]) for key, value in want.items())
    if isinstance(want, list):
        return isinstance(have, list) and len(want) == len(have) and all(map(_within, want, have))
    return bool(want == have)
