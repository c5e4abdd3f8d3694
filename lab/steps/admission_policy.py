"""The lab's admission policies: documents, checks and deletion. Their manifests say why they exist."""

from __future__ import annotations

from typing import Any

from lab.errors import ApiFailed
from lab.kube import OWNER_LABEL, Cluster
from lab.objects.fields import labels_of
from lab.paths import assets
from lab.snapshot.cluster_snapshot import ClusterSnapshot

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
NAME = "kailab-host-kai-keeps-off"
"""The policy against the host's KAI in namespaces of own-kai tenants; its binding has the same name."""

_CHECK = "kailab-policy-check"
"""The policy denies a dry run of a pod of this name to every user; see the manifest."""

Json = dict[str, Any]


def documents(lab: str, name: str = NAME) -> list[Json]:
    """A policy and its binding, with the lab's label."""
    import yaml

    text = (assets("manifests") / "tenants" / f"{name.removeprefix('kailab-')}.yaml").read_text()
    docs: list[Json] = list(yaml.safe_load_all(text))
    return [{**doc, "metadata": {**doc["metadata"], "labels": {OWNER_LABEL: lab}}} for doc in docs]


def differences(snapshot: ClusterSnapshot, lab: str) -> list[str]:
    """Which of policy and binding are missing or differ from the manifest, one line each."""
    lines = []
    for doc in documents(lab):
        kind, name = doc["kind"], doc["metadata"]["name"]
        existing = snapshot.get(kind, name)
        if existing is None:
            lines.append(f"{kind} {name} is missing")
        elif not _includes(existing.get("spec") or {}, doc["spec"]):
            lines.append(f"{kind} {name} has been changed")
    return lines


def delete(cluster: Cluster, lab: str, name: str = NAME) -> None:
    """Delete binding and policy if they are this lab's."""
    for kind in (BINDING, POLICY):
        existing = cluster.get(kind, name)
        if existing is not None and labels_of(existing["metadata"]).get(OWNER_LABEL) == lab:
            cluster.delete(kind, name)


def in_force(cluster: Cluster, namespace: str, name: str = NAME, check: str = _CHECK) -> bool:
    """Whether the API server enforces a policy in a namespace, which takes it a second or two after a change.

    Checked with a dry run of the pod ``check``; this does not check the user names in the policy.

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


def _includes(actual: Any, wanted: Any) -> bool:
    """Whether an object has all that is wanted; the API server adds defaults."""
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and all(
            key in actual and _includes(actual[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(actual, list) and len(actual) == len(wanted) and all(map(_includes, actual, wanted))
    return bool(wanted == actual)
