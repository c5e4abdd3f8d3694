"""The pytest plugin in pytest runs of its own, against a lab that is not there."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from filelock import FileLock

from lab import pytest_fixtures, pytest_plugin
from lab.errors import NoLab
from lab.paths import LabPaths
from lab.spec import GpuSpec, LabSpec, QueueSpec, TenantSpec

pytest_plugins = ["pytester"]

Json = dict[str, Any]
Run = Callable[..., pytest.RunResult]


class FakeCluster:
    """Has GPU nodes, and remembers what was made and removed."""

    def __init__(self, kubeconfig: str) -> None:
        self.kubeconfig = Path(kubeconfig)
        self.log: list[str] = []
        self.made: list[Json] = []

    def list(self, kind: str, *_: object, **__: object) -> list[Json]:
        gpus = {"nvidia.com/gpu": "2"}
        return [{"metadata": {"name": "worker"}, "status": {"allocatable": gpus}}] if kind == "Node" else []

    def create(self, doc: Json) -> Json:
        self.log.append(f"create {doc['kind']}")
        self.made.append(doc)
        return doc

    def delete_all(self, kind: str, namespace: str, grace: int | None = None) -> None:
        self.log.append(f"delete all {kind} grace {grace}")

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        self.log.append(f"delete {kind}")

    def wait(self, kind: str, predicate: Callable[[list[Json]], bool], **_: object) -> list[Json]:
        assert predicate([])
        self.log.append(f"wait {kind}")
        return []

    def kubectl(self, *args: str) -> str:
        return " ".join(["kubectl", *args])


class FakeLab:
    """What the plugin asks a lab for."""

    def __init__(self) -> None:
        self.spec = LabSpec(
            name="demo",
            gpu=GpuSpec(mode="simulated"),
            queues=(QueueSpec(name="root"), QueueSpec(name="leaf", parent="root")),
            tenants=(
                TenantSpec(name="ml"),
                TenantSpec(name="ops"),
                TenantSpec(name="research", mode="default"),
            ),
        )
        self.paths = LabPaths("demo")
        self.cluster = FakeCluster("/lab/kubeconfig")
        self.inside = {tenant.name: FakeCluster(f"/lab/{tenant.name}") for tenant in self.tenants}
        self.gpu_mode = "simulated"
        self.kai_version: str | None = "0.16.8"
        self.kai_reason = ""
        self.kind_name = "kailab-demo"
        self.node_image = "kailab/node:1"

    @property
    def tenants(self) -> tuple[TenantSpec, ...]:
        return self.spec.tenants

    @property
    def has_kai(self) -> bool:
        return self.kai_version is not None

    def tenant(self, name: str) -> FakeCluster:
        return self.inside[name]

    def tool(self, name: str) -> Path:
        return Path("/lab/bin") / name

    def facts(self) -> dict[str, str]:
        version = self.kai_version or ""
        return {"lab": "demo", "gpu_mode": self.gpu_mode, "kai_version": version, "no_kai": self.kai_reason}


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def run(pytester: pytest.Pytester, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest on the text of a test module, with the lab ``demo``, and with no other plugin."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("KAILAB_LAB", raising=False)

    def attach(name: str | None = None) -> FakeLab:
        if name not in (None, "demo"):
            raise NoLab(f"there is no lab named {name!r}", fix="lab up")
        return lab

    monkeypatch.setitem(sys.modules, "lab.api", SimpleNamespace(Lab=SimpleNamespace(attach=attach)))  # type: ignore[arg-type]

    def runs(text: str, *args: str, name: str | None = "demo") -> pytest.RunResult:
        pytester.makepyfile(text)
        pytester.makeini("[pytest]")  # or the nearest one above the temporary directory would count
        chosen = ["--lab", name] if name else []
        always = ["-p", "lab.pytest_plugin", "--strict-markers", "-rs"]
        return pytester.runpytest_inprocess(*always, *chosen, *args)

    return runs


def properties(path: Path) -> dict[str, str]:
    """The properties of the suite in a JUnit file."""
    suite = ET.parse(path).getroot().find("testsuite")
    assert suite is not None
    return {p.get("name", ""): p.get("value", "") for p in suite.findall("properties/property")}


def test_plugin_module_imports_nothing_heavy() -> None:
    tree = ast.parse(inspect.getsource(pytest_plugin))
    imported = {
        name
        for node in tree.body
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert {name.partition(".")[0] for name in imported} <= {*sys.stdlib_module_names, "pytest"}


def test_a_run_that_asks_for_no_lab_is_left_alone(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.fixture
        def lab():
            return "theirs"

        def test_own_fixture(lab, pytestconfig):
            assert lab == "theirs"
            assert not pytestconfig.pluginmanager.has_plugin("kailab-fixtures")

        @pytest.mark.gpus(min=99)
        def test_own_use_of_a_marker():
            pass
        """,
        "--junitxml=junit.xml",
        name=None,
    )
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*kailab*")
    assert properties(Path("junit.xml")) == {}


def test_environment_and_conftest_ask_for_a_lab_too(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def test_attached(lab): assert lab.spec.name == 'demo'"
    with monkeypatch.context() as patch:
        patch.setenv("KAILAB_LAB", "demo")
        run(text, name=None).assert_outcomes(passed=1)
    pytester.makeconftest(
        """
        from lab.pytest_plugin import activate

        def pytest_configure(config):
            activate(config)
        """
    )
    run(text, name=None).assert_outcomes(passed=1)
    run(text).assert_outcomes(passed=1)


def test_no_lab_is_one_error_without_a_traceback(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.tenants("host-kai")
        def test_it(tenant): pass

        def test_more(lab): pass
        """,
        name="other",
    )
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["there is no lab named 'other'", "  next: lab up"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_facts_are_properties_of_the_junit_suite(run: Run) -> None:
    result = run("def test_attached(lab): pass", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1)
    found = properties(Path("junit.xml"))
    assert found["kailab.lab"] == "demo"
    assert found["kailab.kai_version"] == "0.16.8"
    result.stdout.fnmatch_lines(["lab demo: GPUs simulated, KAI 0.16.8"])


def test_a_worker_sends_its_facts_to_the_process_that_writes(lab: FakeLab) -> None:
    worker = SimpleNamespace(stash=pytest.Stash(), workeroutput={})
    worker.stash[pytest_plugin.ATTACHED] = lab  # type: ignore[misc]
    pytest_plugin.pytest_sessionfinish(SimpleNamespace(config=worker))  # type: ignore[arg-type]
    written: dict[str, str] = {}
    junit = SimpleNamespace(add_global_property=written.__setitem__)
    plugins = SimpleNamespace(get_plugins=lambda: [object(), junit])
    controller = SimpleNamespace(stash=pytest.Stash(), pluginmanager=plugins)
    pytest_plugin.pytest_testnodedown(SimpleNamespace(config=controller, workeroutput=worker.workeroutput))
    pytest_plugin.pytest_testnodedown(SimpleNamespace(config=controller))  # one that crashed
    pytest_plugin.pytest_sessionfinish(SimpleNamespace(config=controller))  # type: ignore[arg-type]
    assert written["kailab.lab"] == "demo"


NEEDY = """
    import pytest

    @pytest.mark.kai(">=0.13")
    def test_kai(): pass

    @pytest.mark.gpus(min=3)
    def test_gpus(): pass

    @pytest.mark.tenants("own-kai")
    def test_tenants(): pass
"""


def test_unmet_needs_are_skipped_with_the_reason(run: Run, lab: FakeLab) -> None:
    result = run(NEEDY)
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines_random(
        [
            "*needs 3 GPUs, lab demo has 2 (simulated)",
            "*needs 1 tenants (own-kai), lab demo has 0",
        ]
    )
    lab.kai_version, lab.kai_reason, lab.gpu_mode = None, "no registry answers", "none"
    result = run(NEEDY)
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines_random(
        ["*lab demo has no KAI: no registry answers", "*needs 3 GPUs, lab demo has 0 (none)"]
    )
    result.stdout.fnmatch_lines(["*NO KAI (no registry answers)"])


@pytest.mark.parametrize(("version", "passed"), [("0.12.23", 0), ("0.13.0", 1), ("0.17.0-rc.1", 1)])
def test_kai_versions_are_compared(run: Run, lab: FakeLab, version: str, passed: int) -> None:
    lab.kai_version = version
    result = run("import pytest\n@pytest.mark.kai('>=0.13')\ndef test_it(): pass")
    result.assert_outcomes(passed=passed, skipped=1 - passed)


def test_require_turns_the_skip_into_a_failure(run: Run) -> None:
    result = run(NEEDY, "--lab-require", "gpus,kai")
    result.assert_outcomes(passed=1, errors=1, skipped=1)
    result.stdout.fnmatch_lines(["*needs 3 GPUs, lab demo has 2 (simulated) (--lab-require gpus)"])


def test_require_knows_its_words(run: Run) -> None:
    result = run(NEEDY, "--lab-require", "gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--lab-require: unknown gpu (known: kai, gpus, tenants)"])


PLACES = """
    import pytest

    @pytest.mark.places("host", "host-kai", "own-kai")
    def test_place(place): pass

    @pytest.mark.tenants("host-kai", "research")
    def test_tenant(tenant, place):
        assert place.tenant == tenant.name
"""


def test_a_test_runs_in_every_place_its_marker_names(run: Run) -> None:
    result = run(PLACES, "-v")
    result.assert_outcomes(passed=6, skipped=1)
    for test, names in {"place": ["host", "ml", "ops"], "tenant": ["ml", "ops", "research"]}.items():
        result.stdout.fnmatch_lines([f"*test_{test}[[]{name}] PASSED*" for name in names])
    result.stdout.fnmatch_lines(["*lab demo has no tenant own-kai"])


def test_suites_can_be_listed_without_a_lab(run: Run) -> None:
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
    (first,), (second,) = lab.cluster.made, lab.inside["ml"].made
    assert first["metadata"]["labels"] == second["metadata"]["labels"] == {"kailab": "demo"}
    assert first["metadata"]["name"].startswith("t-test-first-")
    assert first["metadata"]["name"] != second["metadata"]["name"]
    removed = ["create Namespace", "delete all Pod grace 1", "wait Pod", "delete Namespace"]
    assert lab.inside["ml"].log == removed
    assert lab.cluster.log == [*removed, "wait Pod"]  # the last: the tenant's pods, as the host has them


def test_failed_test_leaves_artifacts(run: Run, lab: FakeLab) -> None:
    text = """
        def test_bad(place):
            assert place.namespace == "another"

        def test_other_trouble():
            assert False
    """
    result = run(text, "--lab-artifacts=kept", "--junitxml=junit.xml")
    result.assert_outcomes(failed=2)
    (index,) = Path("kept").glob("*/index.txt")
    assert "test_bad" in index.parent.name
    assert "lab: demo" in index.read_text()
    result.stdout.fnmatch_lines(["*kailab artifacts*", f"{index.parent.absolute()} (*files)"])
    case = ET.parse("junit.xml").getroot().find("testsuite/testcase/properties/property")
    assert case is not None
    assert case.get("value") == str(index.parent.absolute())
    assert run(text, "--lab-artifacts=none", "--lab-artifacts-seconds=0").ret == 1
    assert not Path("none").exists()


def test_queue_is_a_leaf_of_the_lab_file(run: Run) -> None:
    run("def test_queue(queue): assert queue == 'leaf'").assert_outcomes(passed=1)


def test_gpu_uuids_are_those_of_the_lab_file(run: Run) -> None:
    result = run(
        """
        from lab.parts.gpu.devices import gpu_uuid

        def test_known(gpu_node, gpu_uuids):
            assert gpu_uuids(gpu_node.name) == {gpu_uuid("demo", "worker", 0), gpu_uuid("demo", "worker", 1)}
        """
    )
    result.assert_outcomes(passed=1)


def test_gpus_are_locked_among_processes(run: Run, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def test_alone(gpu_lock): pass"
    run(text).assert_outcomes(passed=1)
    monkeypatch.setattr(pytest_fixtures, "LOCK_SECONDS", 0.05)
    with FileLock(lab.paths.lock.with_suffix(".gpus")):
        result = run(text)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the lab's GPUs were not free within*"])


def test_kind_cluster_is_the_labs_and_not_pytest_kinds(run: Run, lab: FakeLab) -> None:
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
