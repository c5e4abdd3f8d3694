"""Checks that KAI's admission webhooks answer, with a pod that they must refuse."""

from __future__ import annotations

import operator
from typing import Any

from lab.errors import ApiFailed, WaitTimeout
from lab.kai import VersionLine
from lab.kube import OWNER_LABEL, Cluster
from lab.steps.helm_release import value_at

_NAME = "kailab-webhook-check"
_NAMESPACE = "default"


def wait_for_webhooks(cluster: Cluster, lab: str, line: VersionLine, values: dict[str, Any], timeout: float) -> None:
    """Wait until KAI's webhooks refuse a pod with a fraction of 1.5, as every KAI version does.

    Ready webhook pods do not suffice: the API server must know the configuration and reach the Service. ``values`` are
    KAI's Helm values. Raises WaitTimeout with the last answer.
    """
    if value_at(values, line.helm.namespace_selector):
        return  # the webhooks see only labelled namespaces, and the lab has none for the check
    pod = _probe(lab, line, values)
    if reason := cluster.poll(lambda: _unanswered(cluster, pod), until=operator.not_, timeout=timeout):
        raise WaitTimeout(
            f"KAI's admission webhooks do not answer after {timeout:.0f} s",
            evidence=[reason],
            fix=f"read the log: {cluster.kubectl('logs', '-n', line.namespace, f'deployment/{line.admission}')}",
        )


def webhooks_answer(cluster: Cluster, lab: str, line: VersionLine, values: dict[str, Any]) -> bool:
    """Whether KAI's webhooks answer now. After a restart of the nodes the API still reports Available pods."""
    return bool(value_at(values, line.helm.namespace_selector)) or not _unanswered(cluster, _probe(lab, line, values))


def _probe(lab: str, line: VersionLine, values: dict[str, Any]) -> dict[str, Any]:
    """The pod to refuse; if admitted, its scheduling gate prevents it from running."""
    selected = value_at(values, line.helm.pod_selector) or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": _NAME,
            "namespace": _NAMESPACE,
            "labels": {OWNER_LABEL: lab, **selected},
            "annotations": {line.keys.fraction: "1.5"},
        },
        "spec": {
            "schedulerName": line.scheduler_name,
            "schedulingGates": [{"name": "kailab.dev/never"}],
            "containers": [{"name": "none", "image": "none"}],
        },
    }


def _unanswered(cluster: Cluster, pod: dict[str, Any]) -> str:
    """Why the webhooks did not answer; empty if they did."""
    try:
        cluster.create(pod)
    except ApiFailed as error:
        # "admission webhook "admission.kai-scheduler.svc" denied the request: ... gpu ..." in all versions
        if "denied the request" in error.what and "gpu" in error.what.lower():
            return ""
        if error.status == 409:
            cluster.delete("Pod", _NAME, _NAMESPACE, grace=0, wait=30)
        return error.what
    cluster.delete("Pod", _NAME, _NAMESPACE, grace=0, wait=30)
    return "the pod was admitted without a webhook"
