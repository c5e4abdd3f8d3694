"""The admission bridge: a copy of KAI's admission pod with faster readiness probes."""

from __future__ import annotations

from typing import Any

import pytest

from lab.steps.kai.upgrade.admission_bridge import bridge_pod


def deployment(**probe: int) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "admission", "image": "x"}
    if probe:
        container["readinessProbe"] = {"httpGet": {"path": "/readyz", "port": 8081}, **probe}
    spec = {"serviceAccountName": "admission", "affinity": {"podAntiAffinity": {}}, "containers": [container]}
    template = {"metadata": {"labels": {"app": "admission"}}, "spec": spec}
    return {"metadata": {"name": "admission", "namespace": "kai-scheduler"}, "spec": {"template": template}}


def test_bridge_pod_backs_the_same_service_and_is_probed_every_second() -> None:
    original = deployment(initialDelaySeconds=5, periodSeconds=10)
    pod = bridge_pod(original, "demo")
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
    assert original == deployment(initialDelaySeconds=5, periodSeconds=10)


@pytest.mark.parametrize("existing", [deployment(), deployment(initialDelaySeconds=0, periodSeconds=1)])
def test_fast_probes_need_no_bridge(existing: dict[str, Any]) -> None:
    assert bridge_pod(existing, "demo") is None
