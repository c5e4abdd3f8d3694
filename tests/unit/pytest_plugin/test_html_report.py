"""``--lab-report``, in nested pytest runs against a fake lab."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import ApiFailed, NoLab
from lab.gpu.map import watch
from lab.gpu.map.model import GpuState
from lab.paths import LabPaths
from lab.report.suite_run import SuiteRun, suite_file
from lab.session.lab import Lab
from tests.support.gpu_map_world import GpuCluster, demo

pytest_plugins = ["pytester"]

CONFTEST = """
    from pathlib import Path

    from lab.pytest_plugin.html_report import register

    def pytest_addoption(parser):
        parser.addoption("--page", default="page.html")

    def pytest_configure(config):
        register(config, Path(config.getoption("page")))
"""

SUITE = """
    import pytest

    def test_good():
        pass

    def test_bad(record_property, request):
        request.node.user_properties.append(("kailab.artifacts", "/kept/test_bad"))
        assert 1 == 2

    @pytest.mark.skip(reason="needs 3 GPUs")
    def test_skipped():
        pass

    @pytest.fixture
    def broken():
        raise RuntimeError("setup failed")

    def test_error(broken):
        pass
"""


class FakeLab:
    """The parts of a lab that a report reads."""

    def __init__(self) -> None:
        self.paths = LabPaths("demo")
        cluster = SimpleNamespace(own=False, exclusive=False)
        limits = {"cluster": cluster, "budget": SimpleNamespace(gpus=None)}
        self.spec = SimpleNamespace(name="demo", **limits, gpu=SimpleNamespace(mode="simulated"), tenants=())
        self.worlds = [GpuCluster(nodes=[machine.node() for machine in demo().machines]).world, demo().world]

    def context(self, step: str) -> Any:
        return SimpleNamespace(spec=self.spec, cluster=lambda: SimpleNamespace())

    def facts(self) -> dict[str, str]:
        return {"lab": "demo", "kai_version": "0.16.8"}


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> FakeLab:
    made = FakeLab()

    def attach(name: str | None = None) -> FakeLab:
        if name != "demo":
            raise NoLab(f"no lab named {name!r} exists", fix="kailab up")
        return made

    def take(cluster: Any, *, kinds: Any) -> Any:
        if not made.worlds:
            raise ApiFailed("the API server does not answer")
        return made.worlds.pop(0)

    monkeypatch.setattr(Lab, "attach", attach)
    monkeypatch.setattr(watch, "take", take)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return made


def run(pytester: pytest.Pytester, text: str, *args: str, name: str = "demo") -> pytest.RunResult:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(text)
    pytester.makeini("[pytest]")
    return pytester.runpytest_inprocess(
        "-p", "lab.pytest_plugin.plugin", "--lab", name, "-p", "no:cacheprovider", *args
    )


def kept(lab: FakeLab) -> SuiteRun:
    found = SuiteRun.load(suite_file(lab.paths))
    assert found is not None
    return found


def test_run_is_recorded_with_the_gpus_before_and_after(pytester: pytest.Pytester, lab: FakeLab) -> None:
    result = run(pytester, SUITE)
    result.assert_outcomes(passed=1, failed=1, skipped=1, errors=1)
    page = Path("page.html").absolute()
    result.stdout.fnmatch_lines([f"report: {page}"])
    found = kept(lab)
    assert {case.id.partition("::")[2]: (case.outcome, case.why) for case in found.tests} == {
        "test_good": ("passed", ""),
        "test_bad": ("failed", "assert 1 == 2"),
        "test_skipped": ("skipped", "needs 3 GPUs"),
        "test_error": ("error", "RuntimeError: setup failed"),
    }
    assert (found.status, found.facts["kai_version"], found.ok) == (1, "0.16.8", False)
    assert {case.artifacts for case in found.tests} == {"", "/kept/test_bad"}
    assert found.before is not None
    assert found.after is not None
    assert (found.before.count(GpuState.SHARED), found.after.count(GpuState.SHARED)) == (0, 1)
    text = page.read_text()
    for words in ("Before the run", "After the run", "assert 1 == 2", "needs 3 GPUs", "0.16.8"):
        assert words in text


def test_unreachable_cluster_only_omits_the_gpu_maps(pytester: pytest.Pytester, lab: FakeLab) -> None:
    lab.worlds = lab.worlds[:1]
    run(pytester, SUITE).assert_outcomes(passed=1, failed=1, skipped=1, errors=1)
    found = kept(lab)
    assert found.after is None
    assert found.notes == ("after the run, the GPUs could not be read: the API server does not answer",)


def test_page_reports_a_missing_lab(pytester: pytest.Pytester, lab: FakeLab) -> None:
    run(pytester, "def test_plain(): pass", name="other").assert_outcomes(passed=1)
    text = Path("page.html").read_text()
    assert "no lab named &#39;other&#39; exists" in text
    assert "✓ passed" in text
    assert not suite_file(lab.paths).exists()


def test_collection_error_is_recorded(pytester: pytest.Pytester, lab: FakeLab) -> None:
    run(pytester, "import no_such_module")
    (case,) = kept(lab).tests
    assert (case.outcome, case.why) == ("error", "ModuleNotFoundError: No module named 'no_such_module'")


def test_unwritable_page_does_not_fail_the_run(pytester: pytest.Pytester, lab: FakeLab) -> None:
    Path("taken").write_text("a file")
    result = run(pytester, "def test_good(): pass", "--page", "taken/page.html")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["no report: *taken/page.html cannot be written: *"])


def test_collect_only_writes_no_report(pytester: pytest.Pytester, lab: FakeLab) -> None:
    run(pytester, SUITE, "--collect-only")
    assert not Path("page.html").exists()
    assert len(lab.worlds) == 2


def test_xdist_worker_registers_no_report() -> None:
    from lab.pytest_plugin.html_report import register

    registered: list[object] = []
    manager = SimpleNamespace(register=lambda *args: registered.append(args))
    config = SimpleNamespace(workerinput={}, getoption=lambda *_, **__: False, pluginmanager=manager)
    register(config, Path("page.html"))  # type: ignore[arg-type]
    assert registered == []
