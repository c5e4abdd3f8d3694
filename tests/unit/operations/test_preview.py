"""What an existing cluster is asked before a lab makes anything in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.errors import LabError, NotPermitted, Unavailable
from lab.kube.access_review import DryRun, Permission
from lab.operations.planning import cluster_steps
from lab.operations.preview import MANY_PODS, Preview
from lab.session.step import LabStep
from lab.snapshot.inventory import inventory
from lab.steps.pulled_images import MISSING
from tests.support.access_reviews import permit
from tests.support.builders import node
from tests.support.fake_api_server import FakeApiServer
from tests.support.specs import EXISTING, lab_spec


@pytest.fixture
def found() -> Preview:
    """A cluster that permits everything."""
    api = FakeApiServer(node("a", gpus=2))
    api.put("Namespace", "kube-system", metadata={"uid": "one"})
    permit(api, lambda _: True)
    return Preview(inventory(api.cluster), ("Queue team",))


def test_permitted_cluster_is_used(found: Preview) -> None:
    found.refuse()
    assert found.production == ""


def test_missing_permission_is_named_with_the_way_to_a_role(found: Preview) -> None:
    lacking = replace(found, missing=(Permission("create", "scheduling.run.ai", "queues"),))
    with pytest.raises(NotPermitted, match="jane lacks 1 permissions") as caught:
        lacking.refuse()
    assert caught.value.evidence == ("create queues.scheduling.run.ai",)
    assert "kailab plan --role" in caught.value.fix


def test_object_that_the_server_refuses_ends_the_run_before_it_begins(found: Preview) -> None:
    with pytest.raises(LabError, match="would refuse 1 objects"):
        replace(found, dry_run=DryRun(("Queue team: denied",), ())).refuse()


def test_mark_or_many_pods_of_others_mean_production(found: Preview) -> None:
    marked = replace(found, inventory=replace(found.inventory, production=True))
    assert "marked" in marked.production
    busy = replace(found, inventory=replace(found.inventory, foreign={"shop": MANY_PODS + 1}))
    assert busy.production == f"{MANY_PODS + 1} pods of others run in it"


def test_image_that_is_nowhere_ends_the_run_before_it_begins(found: Preview) -> None:
    with pytest.raises(Unavailable, match="1 images") as caught:
        replace(found, images={"r/kai:1": MISSING, "r/binder:1": "nodes", "r/x:1": "unknown"}).refuse()
    assert caught.value.evidence == ("r/kai:1",)


def test_steps_need_more_than_their_objects() -> None:
    tenants = [{"name": "team", "mode": "host-kai", "quota": {"gpus": 1}}]
    supply = {"pullSecrets": ["login"]}
    spec = lab_spec(cluster=EXISTING, tenants=tenants, supply=supply, scheduler="kai", kai={"manage": "install"})
    steps = [step for step in cluster_steps(spec, "", False) if isinstance(step, LabStep)]
    needed = {str(permission) for step in steps for permission in step.permissions()}
    assert {"list nodes", "list pods", "list namespaces"} <= needed
    assert "list customresourcedefinitions.apiextensions.k8s.io" in needed
    for namespace in ("kai-scheduler", "vcluster-team"):
        assert {f"{verb} secrets in {namespace}" for verb in ("list", "create", "update", "delete")} <= needed
    assert "get secrets login in default" in needed
    assert "create pods/portforward in vcluster-team" in needed
    assert "delete priorityclasses.scheduling.k8s.io" not in needed
    synced = {"sync": {"toHost": {"priorityClasses": {"enabled": True}}}}
    spec = lab_spec(cluster=EXISTING, tenants=[{**tenants[0], "values": synced}], kai={"manage": "install"})
    steps = [step for step in cluster_steps(spec, "", False) if isinstance(step, LabStep)]
    needed = {str(permission) for step in steps for permission in step.permissions()}
    assert "delete priorityclasses.scheduling.k8s.io" in needed
