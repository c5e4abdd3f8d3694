"""Fixtures of the pytest plugin, in nested pytest runs against a fake lab."""

from __future__ import annotations

import pytest

from lab.pytest_plugin import gpu_fixtures
from lab.tools.lock import lock
from lab.workloads.temporary import owner_labels
from tests.support.fake_lab import FakeLab, Run, runner

pytest_plugins = ["pytester"]


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def run(pytester: pytest.Pytester, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(pytester, lab, monkeypatch)


PLACES = """
    import pytest

    @pytest.mark.places("host", "host-kai", "own-kai")
    def test_place(workloads): pass

    @pytest.mark.tenants("host-kai", "research")
    def test_tenant(tenant, workloads):
        assert workloads.tenant == tenant.name
"""


def test_test_runs_in_every_place_of_its_marker(run: Run) -> None:
    result = run(PLACES, "-v")
    result.assert_outcomes(passed=6, skipped=1)
    for test, names in {"place": ["host", "ml", "ops"], "tenant": ["ml", "ops", "research"]}.items():
        result.stdout.fnmatch_lines([f"*test_{test}[[]{name}] PASSED*" for name in names])
    result.stdout.fnmatch_lines(["*lab demo has no tenant own-kai"])


def test_tests_are_collected_without_a_lab(run: Run) -> None:
    result = run(PLACES, "--collect-only", "-q", name="other")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_place[[]host-kai]", "*test_tenant[[]research]"])


def test_namespace_is_fresh_labelled_and_removed(run: Run, lab: FakeLab) -> None:
    result = run(
        """
        def test_first(namespace): pass
        def test_second(tenant, namespace): pass
        """
    )
    result.assert_outcomes(passed=2)
    (first,), (second,) = ([call.body for call in api.calls_of("create")] for api in (lab.api, lab.inside["ml"]))
    assert first["metadata"]["labels"] == second["metadata"]["labels"] == owner_labels("demo")
    assert first["metadata"]["name"].startswith("t-test-first-")
    assert first["metadata"]["name"] != second["metadata"]["name"]
    made, pods, groups = "create Namespace", "delete all Pod grace 0", "delete all PodGroup grace None"
    assert lab.inside["ml"].brief == [made, pods, "list Pod", "delete Namespace"]
    # the last call lists the tenant's pods on the host
    assert lab.api.brief == [made, pods, groups, "list Pod", "delete Namespace", "list Pod"]


def test_namespace_has_the_labels_by_which_an_adopted_kai_serves_it(run: Run, lab: FakeLab) -> None:
    lab.kai_serves = {"team": "ml"}
    run("def test_first(namespace): pass").assert_outcomes(passed=1)
    (made,) = lab.api.calls_of("create", "Namespace")
    assert made.body["metadata"]["labels"] == {**owner_labels("demo"), "team": "ml"}


FAILS = """
    def test_fails(namespace): assert False
    def test_passes(namespace): pass
"""


def test_fractions_are_skipped_where_the_lab_file_has_sharing_off(run: Run, lab: FakeLab) -> None:
    lab.spec = lab.spec.model_copy(update={"kai": lab.spec.kai.model_copy(update={"gpu_sharing": False})})
    result = run("""
        from lab.workloads.pods import cpu_pod, fraction_pod

        def test_part(workloads):
            workloads.submit(fraction_pod("half", fraction=0.5, queue="q"))

        def test_none(workloads):
            workloads.submit(cpu_pod("cpu", queue="q"))
    """)
    result.assert_outcomes(passed=1, skipped=1)


def test_namespace_of_a_failed_test_stays_on_request(run: Run, lab: FakeLab) -> None:
    result = run(FAILS, "--lab-keep=failed")
    result.assert_outcomes(failed=1, passed=1)
    failed, passed = (call.body["metadata"]["name"] for call in lab.api.calls_of("create"))
    assert [call.name for call in lab.api.calls_of("delete") if call.kind == "Namespace"] == [passed]
    result.stdout.fnmatch_lines(
        [
            "*kailab keeps*",
            f"namespace {failed}; the next run, kailab verify and kailab up remove it",
            f"  look:   kubectl --kubeconfig * --namespace {failed} get pods,events",
            f"  remove: kubectl --kubeconfig * delete namespace {failed}",
        ]
    )


def test_namespace_of_a_failed_test_is_removed_otherwise(run: Run, lab: FakeLab) -> None:
    run(FAILS).assert_outcomes(failed=1, passed=1)
    assert len([call for call in lab.api.calls_of("delete") if call.kind == "Namespace"]) == 2


def test_queue_is_a_leaf_of_the_lab_file(run: Run) -> None:
    run("def test_queue(queue): assert queue == 'leaf'").assert_outcomes(passed=1)


def test_gpu_uuids_follow_from_the_lab_file(run: Run) -> None:
    result = run(
        """
        from lab.gpu.simulated.devices import gpu_uuid

        def test_known(gpu_node, gpu_uuids):
            assert gpu_uuids(gpu_node.name) == {gpu_uuid("demo", "worker", 0), gpu_uuid("demo", "worker", 1)}
        """
    )
    result.assert_outcomes(passed=1)


def test_gpus_are_locked_across_processes(run: Run, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def test_alone(gpu_lock): pass"
    run(text).assert_outcomes(passed=1)
    monkeypatch.setattr(gpu_fixtures, "LOCK_SECONDS", 0.05)
    with lock(lab.paths.lock.with_suffix(".gpus-0"), stopped=lambda: True):
        result = run(text)
        assert run("def test_on_one(gpu_node_lease): assert gpu_node_lease == 'kailab-demo-worker2'").ret == 0
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the lab's GPUs were not free within*"])


def test_test_leases_a_free_node(run: Run, lab: FakeLab) -> None:
    """Its pods run on the leased node."""
    text = """
        def test_one(gpu_node_lease, workloads):
            assert (gpu_node_lease, workloads.node) == ("kailab-demo-{node}", "kailab-demo-{node}")
        """
    assert run(text.format(node="worker")).ret == 0
    with lock(lab.paths.lock.with_suffix(".gpus-0"), stopped=lambda: True):
        assert run(text.format(node="worker2")).ret == 0


def test_old_fixture_names_warn_and_still_work(run: Run, lab: FakeLab) -> None:
    lab.api.put("Node", "kailab-demo-worker")
    result = run(
        """
        import pytest

        @pytest.mark.places("host", "host-kai")
        def test_old(gpu_home, home, place, new_place):
            assert (gpu_home, place.node, new_place().node) == (home.name, gpu_home, gpu_home)
        """
    )
    result.assert_outcomes(passed=3)
    renamed = {"place": "workloads", "new_place": "new_workloads", "gpu_home": "gpu_node_lease", "home": "leased_node"}
    for old, new in renamed.items():
        result.stdout.fnmatch_lines([f"*DeprecationWarning: fixture '{old}' is deprecated: use '{new}'"])


@pytest.mark.parametrize("fixture", ["gpu_node_lease", "gpu_lock"])
def test_test_queues_behind_an_earlier_gpu_request(
    run: Run, lab: FakeLab, monkeypatch: pytest.MonkeyPatch, fixture: str
) -> None:
    text = f"def test_gpus({fixture}): pass"
    monkeypatch.setattr(gpu_fixtures, "LOCK_SECONDS", 0.05)
    with lock(lab.paths.lock.with_suffix(".gpus-asked"), stopped=lambda: True):
        run(text).assert_outcomes(errors=1)
    run(text).assert_outcomes(passed=1)


def test_gpu_tests_are_ordered_by_their_needs(run: Run) -> None:
    """Tests of one node run first, on any worker; then the group that needs all GPUs; disturbing tests run last."""
    done = run(
        """
        import pytest

        def group(request):
            mark = request.node.get_closest_marker("xdist_group")
            return mark and mark.args[0]

        @pytest.mark.disturbs("KAI", only="kai")
        def test_last(request):
            assert group(request) == "gpus"

        @pytest.mark.disturbs("KAI", only="kai")
        def test_before_last(gpu_node_lease, request):
            assert group(request) == "gpus"

        @pytest.mark.disturbs("all of it")
        def test_first_of_those_that_disturb(gpu_lock, request):
            assert group(request) == "gpus"

        @pytest.mark.without_kai
        def test_without_kai_all(gpu_lock, request):
            assert group(request) == "without_kai"

        @pytest.mark.without_kai
        def test_without_kai_one(gpu_node_lease, request):
            assert group(request) == "without_kai"

        @pytest.mark.without_kai
        def test_without_kai_none(request):
            assert group(request) == "without_kai"

        def test_none(): pass

        def test_all(gpu_lock, request):
            assert group(request) == "gpus"

        @pytest.mark.xdist_group("gpus")
        def test_grouped(gpu_node_lease): pass

        def test_one(gpu_node_lease, request):
            assert group(request) is None
        """,
        "-v",
    )
    done.assert_outcomes(passed=10)
    order = ["one", "grouped", "all", "none", "without_kai_none", "without_kai_one", "without_kai_all"]
    order += ["first_of_those_that_disturb", "before_last", "last"]
    done.stdout.fnmatch_lines([f"*::test_{name} *" for name in order])


def test_kind_cluster_is_the_cluster_of_the_lab(run: Run, lab: FakeLab) -> None:
    pytest.importorskip("pytest_kind")
    lab.paths.root.mkdir(parents=True)
    lab.paths.kubeconfig.write_text(
        """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""
    )
    result = run(
        """
        from pathlib import Path

        def test_attached(kind_cluster, lab):
            assert kind_cluster.name == "kailab-demo"
            assert kind_cluster.kubeconfig_path == lab.paths.kubeconfig
            assert kind_cluster.kubectl_path == Path("/lab/bin/kubectl")
            assert kind_cluster.kind_path == Path("/lab/bin/kind")
            assert kind_cluster.api.url == "https://127.0.0.1:1"
            assert not Path(".pytest-kind").exists()
        """,
        "-p",
        "pytest_kind.plugin",
    )
    result.assert_outcomes(passed=1)


def test_kind_cluster_needs_pytest_kind(run: Run) -> None:
    result = run("def test_it(kind_cluster): pass")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*pytest-kind is not loaded*"])
