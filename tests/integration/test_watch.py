"""``kailab watch`` in a lab: a seeded violation and canary pods appear in its metrics; removed, it leaves nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.kai import cured_in
from lab.kube import Cluster
from lab.kube.proxy import Proxy
from lab.tools.process import HostRunner
from lab.watch.manifests import LOCAL_IMAGE
from lab.watch.metrics import series_of
from lab.watch.names import NAME as WATCH
from lab.watch.names import PORT
from lab.workloads.pods import fraction_pod
from tests.integration.conftest import Cli, lacking
from tests.integration.prometheus import Prometheus, prometheus

NAME = "it-watch"
SPACE = "default"
SECONDS = 120.0
CANARY_SECONDS = 240.0
"""Two rounds of all queues on a machine where two other labs are coming up."""
SERVICE_ACCOUNT = f"system:serviceaccount:{WATCH}:{WATCH}"

Series = tuple[str, dict[str, str], float]


@pytest.fixture(scope="module")
def watched(engine: HostRunner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The command, and a lab with KAI."""
    command = Cli(tmp_path_factory.mktemp("watch"))
    try:
        up = command("up", "--profile", "minimal", "--name", NAME, "--yes", "--json").json()
        if up["facts"]["scheduler"] != "kai":
            lacking("kai", f"needs KAI: {up['facts']['no_kai']}")
        yield command
    finally:
        command("down", "--name", NAME, code=None)


@pytest.fixture
def cluster(watched: Cli) -> Cluster:
    return Cluster(Path(watched("kubeconfig", "--name", NAME).out.strip()))


def scraped(cluster: Cluster) -> list[Series]:
    """The metrics, as Prometheus reads them."""
    text = Proxy(cluster, "Service", WATCH, WATCH, PORT).raw("GET", "/metrics", patience=30).decode()
    return [(name, dict(labels), value) for name, labels, value in series_of(text)]


def until(cluster: Cluster, holds: Callable[[Series], bool], timeout: float = SECONDS) -> Series:
    """The first series for which ``holds``."""
    found = cluster.poll(lambda: [one for one in scraped(cluster) if holds(one)], timeout=timeout, interval=1.0)
    assert found, scraped(cluster)
    return found[0]


def all_of_it(cluster: Cluster) -> list[str]:
    """Every object with the name or the labels of the watch, of all kinds that the server has."""
    kinds = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment")
    kinds += ("ReplicaSet", "Pod", "Service", "PodGroup", "BindRequest", "ConfigMap", "EndpointSlice")
    found = [(kind, obj["metadata"]) for kind in kinds for obj in cluster.list(kind)]
    return [f"{kind} {meta['name']}" for kind, meta in found if WATCH in (meta["name"], meta.get("namespace"))]


@pytest.mark.timeout(1500)
def test_violation_and_canaries_appear_and_removal_leaves_nothing(watched: Cli, cluster: Cluster) -> None:
    installed = watched("watch", "install", "--name", NAME, "--canary", "--interval", "5", "--json").json()
    assert installed["objects"]
    cluster.apply([fraction_pod(name, fraction=0.5, namespace=SPACE) for name in ("a", "b")])
    cluster.wait_ready("Pod", {"a", "b"}, SPACE, timeout=SECONDS)
    _, labels, _ = until(cluster, lambda one: one[0] == "kailab_kai_info")
    version = labels["version"]
    assert watched("watch", "status", "--name", NAME, "--json").json()["kai_version"] == version

    # canaries: bound in seconds, in each leaf queue, and no pod of theirs stays
    until(
        cluster,
        lambda one: one[0] == "kailab_canary_bound_seconds_count" and one[1] == {"queue": "test"} and one[2] > 1,
        timeout=CANARY_SECONDS,
    )
    assert not [one for one in scraped(cluster) if one[0] == "kailab_canary_failures_total" and one[2]]

    # a fraction that grows behind KAI's back
    began = time.monotonic()
    cluster.patch("Pod", "a", {"metadata": {"annotations": {"gpu-fraction": "0.9"}}}, SPACE)
    _, labels, value = until(cluster, lambda one: broken(one, "gpu-fractions"))
    assert time.monotonic() - began < 30
    assert value == 1
    defects = labels["defect"].split(",") if labels["defect"] else []
    assert labels["cured_in"] == ",".join(dict.fromkeys(cured_in(name, version) or "none" for name in defects))
    possible = [
        "over-packed-on-retry",
        "counted-in-another-group",
        "reservation-lost-on-retry",
        "reservation-lost-in-storm",
    ]
    assert version != "0.16.8" or defects == possible
    status = watched("watch", "status", "--name", NAME, "--json", code=13).json()
    assert [one["id"] for one in status["invariants"] if one["now"]] == ["gpu-fractions"]
    logged = cluster.logs(pod_of(cluster), WATCH)
    assert '"event": "violation"' in logged
    assert "Traceback" not in logged

    # it ends with its cause
    cluster.patch("Pod", "a", {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}, SPACE)
    total = "kailab_invariant_violations_total"
    until(cluster, lambda one: one[0] == total and one[1] == {"invariant": "gpu-fractions"} and one[2] == 1)
    assert cluster.poll(lambda: not any(broken(one, "gpu-fractions") for one in scraped(cluster)), timeout=SECONDS)

    removed = watched("watch", "remove", "--name", NAME, "--json").json()
    assert (len(removed["removed"]), removed["kept"]) == (3, [])
    assert all_of_it(cluster) == []
    cluster.delete_all("Pod", SPACE, grace=1)


@pytest.mark.timeout(900)
def test_real_prometheus_accepts_the_rules_and_fires_on_a_violation(
    watched: Cli, cluster: Cluster, tmp_path: Path
) -> None:
    """And every query of the dashboard has an answer there; Grafana itself is not at hand."""
    manifests = yaml.safe_load_all(watched("watch", "manifests", "--image", LOCAL_IMAGE).out)
    (rules,) = (doc for doc in manifests if doc["kind"] == "PrometheusRule")
    panels = json.loads(watched("watch", "dashboard").out)["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    with prometheus(tmp_path, cluster, rules["spec"]["groups"]) as server:
        watched("watch", "install", "--name", NAME, "--canary", "--interval", "5")
        cluster.apply([fraction_pod(name, fraction=0.5, namespace=SPACE) for name in ("a", "b")])
        cluster.wait_ready("Pod", {"a", "b"}, SPACE, timeout=SECONDS)
        assert server.until(lambda seen: bool(seen.query("kailab_kai_info")))
        loaded = {rule["name"] for group in server.api("rules")["groups"] for rule in group["rules"]}
        assert loaded == {rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"]}
        assert not server.firing()

        cluster.patch("Pod", "a", {"metadata": {"annotations": {"gpu-fraction": "0.9"}}}, SPACE)
        name = "KaiGpuFractionsViolated"
        assert server.until(lambda seen: "defect" in seen.firing().get(name, {}).get("labels", {}), 30)
        alert = server.firing()[name]
        assert alert["labels"]["severity"] == "critical"
        assert alert["annotations"]["summary"].startswith("Violated: ")
        cause = alert["labels"]["defect"]  # of 0.16.8 and 0.17.0
        assert f"Known defect of KAI: {cause}, cured in" in alert["annotations"]["description"]
        assert set(server.firing()) == {name}

        def unanswered(seen: Prometheus) -> list[str]:
            # that panel shows only what is wrong
            return [one for one in queries if not seen.query(one.removesuffix(" == 0"))]

        assert server.until(lambda seen: not unanswered(seen)), unanswered(server)
        (series,) = server.query('sum(kailab_invariant_violations{invariant="gpu-fractions"})')
        assert series["value"][1] == "1"
    watched("watch", "remove", "--name", NAME)
    cluster.delete_all("Pod", SPACE, grace=1)


@pytest.mark.timeout(900)
def test_cluster_is_named_by_file_and_context(watched: Cli, cluster: Cluster) -> None:
    """As in a cluster that is not a lab's; the nodes still have the image."""
    where = ("--kubeconfig", str(cluster.kubeconfig), "--context", f"kind-kailab-{NAME}")
    watched("watch", "install", "--name", NAME)
    watched("watch", "remove", "--name", NAME)
    assert "--image is missing" in watched("watch", "install", *where, code=2).err
    installed = watched("watch", "install", *where, "--image", LOCAL_IMAGE, "--json").json()
    assert (installed["cluster"], installed["image"]) == (f"cluster {where[-1]}", LOCAL_IMAGE)
    assert watched("watch", "status", *where, "--json").json()["ready"]
    assert "belongs to lab kailab-watch" in watched("watch", "install", "--name", NAME, code=5).err
    assert len(watched("watch", "remove", "--name", NAME, "--json").json()["kept"]) == 3
    assert len(watched("watch", "remove", *where, "--json").json()["removed"]) == 3
    assert all_of_it(cluster) == []


@pytest.mark.timeout(900)
def test_watch_reads_only_and_down_takes_it_along(watched: Cli, cluster: Cluster) -> None:
    watched("watch", "install", "--name", NAME)
    assert not allowed(cluster, "create", "pods", WATCH)
    assert not allowed(cluster, "list", "events", WATCH)
    watched("watch", "install", "--name", NAME, "--canary")
    assert allowed(cluster, "list", "pods", SPACE)
    assert allowed(cluster, "create", "pods", WATCH)
    for verb, resource, space in (
        ("create", "pods", SPACE),
        ("delete", "pods", SPACE),
        ("patch", "pods", WATCH),
        ("get", "secrets", WATCH),
        ("create", "pods/exec", WATCH),
    ):
        assert not allowed(cluster, verb, resource, space), (verb, resource, space)
    # nothing of the cluster is foreign, so the same options mean somebody else's watch here
    kubeconfig = ("--kubeconfig", str(cluster.kubeconfig), "--context", f"kind-kailab-{NAME}")
    refused = watched("watch", "install", *kubeconfig, "--image", "registry.example/watch:1", code=5)
    assert f"belongs to lab {NAME}" in refused.err
    kept = watched("watch", "remove", *kubeconfig, "--json").json()
    assert (kept["removed"], len(kept["kept"])) == ([], 3)
    down = watched("down", "--name", NAME, "--json").json()
    assert down["left"] == []


def broken(series: Series, invariant: str) -> bool:
    """Whether it is a violation that lasts."""
    name, labels, value = series
    return name == "kailab_invariant_violations" and labels["invariant"] == invariant and value > 0


def pod_of(cluster: Cluster) -> str:
    """Name of the watch's pod."""
    (pod,) = cluster.list("Pod", WATCH, f"app.kubernetes.io/name={WATCH}")
    return str(pod["metadata"]["name"])


def allowed(cluster: Cluster, verb: str, resource: str, namespace: str) -> bool:
    """Whether the watch's ServiceAccount may do something."""
    plural, _, sub = resource.partition("/")
    attributes = {"verb": verb, "resource": plural, "subresource": sub, "namespace": namespace}
    review: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {"name": ""},
        "spec": {"user": SERVICE_ACCOUNT, "resourceAttributes": attributes},
    }
    return bool(cluster.create(review)["status"]["allowed"])
