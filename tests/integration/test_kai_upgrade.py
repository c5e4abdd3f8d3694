"""The lab's own KAI changes with ``kailab kai upgrade``, and back: under load, killed, or when nothing is scheduled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.errors import NotProven
from lab.kai import line_of
from lab.kube import Cluster
from lab.steps import helm_release
from lab.steps.kai.step import NAMESPACE, RELEASE
from lab.workloads.pods import cpu_pod, fraction_pod
from tests.integration.conftest import Cli
from tests.integration.kai_lines import bring_up, two_lines
from tests.support.killed import Killable
from tests.support.lab_traces import traces_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

NAME = "it-kai-upgrade"
SPACE = "default"
DENIED = "it-pod-groups-denied"
IN_HELM = "in helm upgrade"


def upgrade(version: str) -> tuple[str, ...]:
    return ("kai", "upgrade", version, "--name", NAME, "--no-suites", "--json")


def rollback(*options: str) -> tuple[str, ...]:
    return ("kai", "rollback", "--name", NAME, "--json", *options)


@contextmanager
def lab_with(cli: Cli, version: str, other: str, *settings: str) -> Iterator[Cluster]:
    cli.labs.append(NAME)
    cluster = bring_up(cli, NAME, version, other, settings=settings)
    try:
        yield cluster
    finally:
        cluster.close()


def kai_of(cluster: Cluster) -> str:
    """Version of the Helm release."""
    release = helm_release.installed(cluster, RELEASE, NAMESPACE)
    return release.chart_version.removeprefix("v") if release else ""


@contextmanager
def pod_grouper_refused_from(version: str, cluster: Cluster) -> Iterator[None]:
    """Refuse the pod-grouper's PodGroups as soon as Helm has deployed a version, as with a stale token."""
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["scheduling.run.ai"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["podgroups"],
                }
            ]
        },
        "validations": [
            {"expression": f"request.userInfo.username != 'system:serviceaccount:{NAMESPACE}:pod-grouper'"}
        ],
    }
    kinds = {"ValidatingAdmissionPolicy": policy}
    kinds["ValidatingAdmissionPolicyBinding"] = {"policyName": DENIED, "validationActions": ["Deny"]}
    docs = [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": DENIED}, "spec": spec}
        for kind, spec in kinds.items()
    ]
    ended = threading.Event()

    def refuse() -> None:
        cluster.wait(
            "Secret",
            lambda _: ended.is_set() or kai_of(cluster) == version,
            namespace=NAMESPACE,
            timeout=900,
            what=f"Helm deploys KAI {version}",
        )
        cluster.apply(docs)

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        for kind in kinds:
            cluster.delete(kind, DENIED)


def test_upgrade_and_back_under_load(cli: Cli) -> None:
    """A fraction of a user keeps running both ways, and nothing of the rehearsals is left."""
    older, newer = two_lines()
    with lab_with(cli, older, newer) as cluster:
        cluster.apply([fraction_pod("steady", namespace=SPACE, fraction=0.25, queue="test")])
        before = cluster.wait_ready("Pod", "steady", SPACE, timeout=180)[0]["metadata"]["uid"]
        traces = traces_in(cluster)
        found = cli(*upgrade(newer), code=NotProven.exit_code).json()
        assert (found["now"], found["not_reached"]) == (newer, [])
        (rehearsal,) = found["rehearsals"]
        assert rehearsal["reasons"] == []
        assert "suites: left out (--no-suites)" in rehearsal["missing"]
        assert {one["name"]: bool(one["seconds"]) for one in rehearsal["load"]}["gang"]
        assert {one["name"]: bool(one["seconds"]) for one in rehearsal["trials"]}["gang"]
        assert rehearsal["change"]["how"] == "in place"
        assert 0 < rehearsal["change"]["unscheduled"] < 180
        assert rehearsal["invariants"]["ok"]
        assert cli("status", "--name", NAME, "--json").json()["facts"]["kai_version"] == newer

        back = cli(*rollback()).json()
        assert (back["verdict"], back["now"]) == ("green", older)
        assert cli("status", "--name", NAME, "--json").json()["ok"]
        assert (cluster.get("Pod", "steady", SPACE) or {})["metadata"]["uid"] == before
        cluster.wait(
            "Namespace",
            lambda spaces: not [one for one in spaces if one["metadata"]["name"].startswith("t-")],
            timeout=120,
            what="the namespaces of the rehearsals are gone",
        )
        queues = {f"Queue.scheduling.run.ai /{name}" for name in line_of(newer).default_queues}  # its own, which stay
        left = traces_in(cluster) - traces - queues
        assert not [line for line in left if "kailab-" in line or line.startswith("Queue")]


def test_suites_pass_after_it_and_the_verdict_is_green(cli: Cli) -> None:
    older, newer = two_lines()
    with lab_with(cli, older, newer, "gpu.perNode=4"):
        found = cli("kai", "upgrade", newer, "--name", NAME, "--json", timeout=2000).json()
        (rehearsal,) = found["rehearsals"]
        assert (rehearsal["reasons"], rehearsal["missing"]) == ([], [])
        assert (found["verdict"], found["now"]) == ("green", newer)
        assert rehearsal["suites"]["passed"] > 30
        assert cli("status", "--name", NAME, "--json").json()["ok"]


def test_host_is_upgraded_beside_a_tenants_own_kai(cli: Cli) -> None:
    """The tenant's KAI and its pods stay as they are, and the host's keeps off its node."""
    older, newer = two_lines()
    if not line_of(older).helm.node_pool_key:
        pytest.skip(f"KAI {older} cannot be on the host beside a tenant's own KAI: needs bundles of two newer lines")
    tenant = f"{{name: own, mode: own-kai, kaiVersion: {older}}}"
    with lab_with(cli, older, newer, "cluster.workers=2", "gpu.perNode=2", f"tenants=[{tenant}]") as cluster:
        pods = {pod["metadata"]["uid"] for pod in cluster.list("Pod", "vcluster-own")}
        found = cli(*upgrade(newer), code=NotProven.exit_code).json()
        (rehearsal,) = found["rehearsals"]
        assert rehearsal["reasons"] == []
        assert rehearsal["missing"] == ["suites: left out (--no-suites)"]
        assert (found["now"], kai_of(cluster)) == (newer, newer)
        assert {pod["metadata"]["uid"] for pod in cluster.list("Pod", "vcluster-own")} == pods
        assert cli("status", "--name", NAME, "--json").json()["ok"]
        assert cli("verify", "--name", NAME, "--json").json()["ok"]


def test_killed_changes_finish(cli: Cli) -> None:
    """Killed while Helm works, the repeated upgrade finishes, and so does the repeated rollback."""
    older, newer = two_lines()
    with lab_with(cli, older, newer) as cluster:
        killable = Killable(cli.env, cli.root)
        killable.kill(IN_HELM, *upgrade(newer))
        found = cli(*upgrade(newer), code=NotProven.exit_code).json()
        assert (found["now"], found["rehearsals"][0]["before"]) == (newer, older)
        killable.kill(IN_HELM, *rollback())
        assert not cli("status", "--name", NAME, "--json", code=None).json()["ok"], "a killed change is seen"
        assert cli(*rollback()).json()["now"] == older
        assert cli("status", "--name", NAME, "--json").json()["ok"]
        assert not [line for line in traces_in(cluster) if "kailab-kai-is-changed" in line]


def test_kai_that_is_ready_but_schedules_nothing_is_red(cli: Cli) -> None:
    """As in NVIDIA/aicr #2636: every Deployment is Ready after the upgrade, and no gang is ever scheduled."""
    older, newer = two_lines()
    with lab_with(cli, older, newer) as cluster:
        with pod_grouper_refused_from(newer, cluster):
            found = cli(*upgrade(newer), code=1).json()
            (rehearsal,) = found["rehearsals"]
            assert rehearsal["verdict"] == "red"
            assert any("new pod" in reason or "smoke test" in reason for reason in rehearsal["reasons"])
            assert (found["now"], kai_of(cluster)) == (older, older)
        cluster.apply([cpu_pod("after", namespace=SPACE, queue="test")], retry=60)
        cluster.wait_ready("Pod", "after", SPACE, timeout=180)
