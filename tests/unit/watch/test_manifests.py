"""The objects of the watch, its alert rules and its dashboard: complete, and derived from the invariants."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lab.objects.isolation_labels import HOST_KAI
from lab.watch.__main__ import parser
from lab.watch.alerts import alert_groups, alert_name
from lab.watch.dashboard import dashboard
from lab.watch.exporter import metrics
from lab.watch.manifests import WatchObjects, identity_of, rules
from lab.watch.names import INVARIANTS, NAME, PORT
from lab.watch.serve import WatchSettings

Json = dict[str, Any]


def docs(**settings: Any) -> dict[str, Json]:
    """The objects by kind."""
    found = WatchObjects("demo", "watch:1", **settings).documents()
    assert len({doc["kind"] for doc in found}) == len(found)
    return {doc["kind"]: doc for doc in found}


def container(found: dict[str, Json]) -> Json:
    (only,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_cluster_role_reads_the_kinds_of_the_invariants_and_no_others() -> None:
    readable = {
        (group, plural)
        for rule in docs(canary=True)["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert readable == {
        ("", "pods"),
        ("", "nodes"),
        ("", "configmaps"),
        ("", "resourcequotas"),
        ("scheduling.run.ai", "bindrequests"),
        ("scheduling.run.ai", "podgroups"),
        ("scheduling.run.ai", "queues"),
    }
    assert {verb for rule in rules() for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert len(readable) == len({kind for one in INVARIANTS for kind in one.needs})


def test_only_canaries_need_more_and_only_in_the_own_namespace() -> None:
    assert not {"Role", "RoleBinding"} & docs().keys()
    role = docs(canary=True)["Role"]
    assert role["metadata"]["namespace"] == NAME
    assert {(*rule["resources"], *rule["verbs"]) for rule in role["rules"]} == {
        ("pods", "create", "delete"),
        ("events", "list"),
    }


def test_every_object_has_the_owner_and_one_name() -> None:
    for doc in docs(canary=True).values():
        assert doc["metadata"]["labels"]["kailab"] == "demo"
        assert doc["metadata"]["name"] == NAME
        assert doc["metadata"].get("namespace", NAME) == NAME
    assert docs()["Namespace"]["metadata"]["labels"].items() >= HOST_KAI.items()


def test_pod_has_no_rights_on_its_node() -> None:
    spec = docs()["Deployment"]["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    context = container(docs())["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_arguments_are_those_that_the_container_takes() -> None:
    assert container(docs())["args"] == []
    args = parser().parse_args(container(docs(canary=True, queues=("a", "b"), interval=30.0))["args"])
    assert (args.canary_image, args.queue, args.interval, args.owner) == ("watch:1", ["a", "b"], 30.0, "demo")
    assert args.port == PORT == WatchSettings().port == container(docs())["ports"][0]["containerPort"]
    assert docs()["Service"]["spec"]["ports"][0]["port"] == PORT


def test_changed_content_of_a_local_image_replaces_the_pod() -> None:
    found = docs(identity="abc")
    assert identity_of(found["Deployment"]) == "abc"
    assert container(found)["imagePullPolicy"] == "Never"
    assert identity_of(docs()["Deployment"]) == identity_of({}) == ""
    assert container(docs())["imagePullPolicy"] == "IfNotPresent"


def test_every_invariant_has_an_alert_rule() -> None:
    own, others = alert_groups()
    assert [rule["alert"] for rule in own["rules"]] == [alert_name(invariant) for invariant in INVARIANTS]
    assert own["rules"][0]["alert"] == "KaiGpuFractionsViolated"
    for invariant, rule in zip(INVARIANTS, own["rules"], strict=True):
        assert rule["expr"].count(f'invariant="{invariant.id}"') == 2
        assert invariant.title in rule["annotations"]["summary"]
    assert docs()["PrometheusRule"]["spec"]["groups"] == [own, others]


def test_every_invariant_has_a_panel() -> None:
    panels = dashboard()["panels"]
    titles = [panel["title"] for panel in panels]
    assert [title for title in titles if title in {one.id for one in INVARIANTS}] == [one.id for one in INVARIANTS]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


@pytest.mark.parametrize("text", [json.dumps(alert_groups()), json.dumps(dashboard())], ids=["alerts", "dashboard"])
def test_queries_name_metrics_that_exist(text: str) -> None:
    known = metrics().text()
    names = set(re.findall(r"\b(?:kailab|process)_[a-z_]+", text))
    assert len(names) >= 5
    for name in names:
        base = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        assert f"# TYPE {base} " in known, name
