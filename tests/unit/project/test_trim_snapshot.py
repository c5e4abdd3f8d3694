"""Trimmed snapshots: no addresses, ids or environment values, and the same explanation."""

from __future__ import annotations

from lab.explain import LabSnapshot, explain
from lab.serialization import to_json
from scripts.trim_snapshot import trimmed
from tests.support.explain_world import SPACE, Scene, ids, meta, pod


def scene() -> Scene:
    result = Scene()
    lost = pod("p", gpus=3)
    lost["spec"]["containers"][0]["env"] = [
        {"name": "PASSWORD", "value": "x1"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    ]
    lost["spec"]["volumes"] = [{"name": "kube-api-access-x"}, {"name": "data"}]
    result.pending(
        lost, says="no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs."
    )
    far = pod("far", "elsewhere", node="worker-1", ready=True, gpus=2)
    far["status"] |= {"podIP": "10.244.1.7", "hostIP": "172.18.0.3"}
    near = pod("near", node="worker-1", ready=True)
    near["status"]["containerStatuses"][0] |= {"imageID": "registry/x@sha256:1", "containerID": "containerd://1"}
    result.add(far, near).event(far, "Pulled", "from elsewhere")
    result.add({"kind": "Service", "metadata": meta("s", SPACE)}, {"kind": "ConfigMap", "metadata": meta("c", SPACE)})
    result.add({"kind": "Namespace", "metadata": meta("elsewhere")})
    for obj in result.objects["Node"]:
        obj["status"]["addresses"] = [{"type": "InternalIP", "address": "172.18.0.3"}]
    result.logs = {"elsewhere/far": ("a",), "team/p": tuple("abcdefghijk"), "binder": ("b",)}
    return result


def test_trimmed_snapshot_has_the_same_explanation() -> None:
    world = scene().world
    cut = trimmed(world, {SPACE})
    before, after = (explain(*LabSnapshot(one).cases("p", SPACE)) for one in (world, cut))
    assert ids(before) == ids(after) == ["nodes.gpus"]
    assert before.findings[0].evidence == after.findings[0].evidence


def test_trimmed_snapshot_has_no_private_data() -> None:
    text = str(to_json(trimmed(scene().world, {SPACE})))
    for word in ("172.18.0.3", "10.244.1.7", "x1", "sha256", "containerd://", "kube-api-access", "from elsewhere"):
        assert word not in text
    assert "'name': 'NVIDIA_VISIBLE_DEVICES', 'value': 'all'" in text


def test_pods_of_other_namespaces_keep_node_usage_only() -> None:
    cut = trimmed(scene().world, {SPACE})
    far = cut.get("Pod", "far", "elsewhere")
    assert far is not None
    assert set(far["metadata"]) == {"name", "namespace", "uid", "labels", "creationTimestamp"}
    assert far["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert [space["metadata"]["name"] for space in cut.of("Namespace")] == [SPACE]
    assert (cut.of("Service"), cut.of("ConfigMap")) == ((), ())
    assert cut.logs == {"team/p": tuple("defghijk"), "binder": ("b",)}
    assert cut.of("CustomResourceDefinition")[0].keys() == {"kind", "metadata"}
