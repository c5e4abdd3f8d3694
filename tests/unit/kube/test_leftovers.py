"""Every object with a lab's label, of any kind."""

from __future__ import annotations

import pytest

from lab.errors import ApiFailed
from lab.kube.leftovers import labelled, of_release
from tests.support.fake_api_server import FakeApiServer

MINE = {"labels": {"kailab": "demo"}}


def test_objects_of_the_lab_are_named_with_their_kind() -> None:
    api = FakeApiServer()
    api.serve("Widget", "example.com/v1", "widgets")
    api.put("Queue", "team", metadata=MINE)
    api.put("Widget", "wheel", "mine", metadata=MINE)
    api.put("Queue", "other", metadata={"labels": {"kailab": "other"}})
    api.put("Namespace", "theirs")
    assert labelled(api.cluster, "demo") == (("Queue team", "Widget mine/wheel"), ())
    assert labelled(api.cluster, "none").titles == ()
    assert api.log == []


def test_objects_of_a_helm_release_are_named_with_their_kind() -> None:
    api = FakeApiServer()
    by_helm, notes = {"app.kubernetes.io/managed-by": "Helm"}, "meta.helm.sh/release-"
    for name, space, release in (("mine", "kai", "kai"), ("other", "kai", "prometheus"), ("far", "other", "kai")):
        annotations = {f"{notes}namespace": space, f"{notes}name": release}
        api.put("ClusterRole", name, metadata={"labels": by_helm, "annotations": annotations})
    assert of_release(api.cluster, "kai", "kai").titles == ("ClusterRole mine",)


@pytest.mark.parametrize("kind", ["Event", "EndpointSlice", "Endpoints"])
def test_copies_that_the_cluster_removes_by_itself_do_not_count(kind: str) -> None:
    api = FakeApiServer()
    api.put(kind, "copy", "mine", metadata=MINE)
    assert labelled(api.cluster, "demo").titles == ()


def test_metrics_of_removed_pods_do_not_count() -> None:
    api = FakeApiServer()
    api.serve("PodMetrics", "metrics.k8s.io/v1beta1", "pods")
    api.put("PodMetrics", "pod", "mine", metadata=MINE)
    assert labelled(api.cluster, "demo").titles == ()


@pytest.mark.parametrize("code", [404, 405])
def test_kinds_that_cannot_be_listed_are_skipped(code: int) -> None:
    api = FakeApiServer()
    api.put("Queue", "team", metadata=MINE)
    api.fail("list", "Secret", (code, "no"))
    assert labelled(api.cluster, "demo") == (("Queue team",), ())


def test_kinds_that_the_user_may_not_list_are_named() -> None:
    api = FakeApiServer()
    api.put("Queue", "team", metadata=MINE)
    for kind in ("Secret", "Role"):
        api.fail("list", kind, (403, "forbidden"))
    assert labelled(api.cluster, "demo") == (("Queue team",), ("Role.rbac.authorization.k8s.io", "Secret"))


def test_server_that_fails_is_not_proof_of_nothing() -> None:
    api = FakeApiServer()
    api.fail("list", "Secret", *[(500, "broken")] * 10)
    with pytest.raises(ApiFailed, match="broken"):
        labelled(api.cluster, "demo")
