"""A pod like admission's own, that is asked sooner whether it is ready."""

from __future__ import annotations

from typing import Any

import pytest

from lab.tenants.upgrade.admission_bridge import bridge


def deployment(**probe: int) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "admission", "image": "x"}
    if probe:
        container["readinessProbe"] = {"httpGet": {"path": "/readyz", "port": 8081}, **probe}
    spec = {"serviceAccountName": "admission", "affinity": {"podAntiAffinity": {}}, "containers": [container]}
    template = {"metadata": {"labels": {"app": "admission"}}, "spec": spec}
    return {"metadata": {"name": "admission", "namespace": "kai-scheduler"}, "spec": {"template": template}}


def test_it_stands_behind_the_same_service_and_is_asked_every_second() -> None:
    before = deployment(initialDelaySeconds=5, periodSeconds=10)
    pod = bridge(before, "demo")
    assert pod is not None
    assert pod["metadata"]["namespace"] == "kai-scheduler"
    assert pod["metadata"]["labels"] == {"app": "admission", "kailab": "demo"}
    assert pod["spec"]["serviceAccountName"] == "admission"
    assert "affinity" not in pod["spec"]
    (container,) = pod["spec"]["containers"]
    assert container["readinessProbe"] == {
        "httpGet": {"path": "/readyz", "port": 8081},
        "initialDelaySeconds": 0,
        "periodSeconds": 1,
    }
    assert before == deployment(initialDelaySeconds=5, periodSeconds=10)


@pytest.mark.parametrize("there", [deployment(), deployment(initialDelaySeconds=0, periodSeconds=1)])
def test_nothing_to_hasten(there: dict[str, Any]) -> None:
    assert bridge(there, "demo") is None
