"""Options, markers and reports of the pytest plugin, in nested pytest runs against a fake lab."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from lab.pytest_plugin import plugin, state
from tests.support.fake_lab import FakeLab, Run, runner

pytest_plugins = ["pytester"]


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab()


@pytest.fixture
def run(pytester: pytest.Pytester, lab: FakeLab, monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner(pytester, lab, monkeypatch)


def properties(path: Path) -> dict[str, str]:
    """The properties of the suite in a JUnit file."""
    suite = ET.parse(path).getroot().find("testsuite")
    assert suite is not None
    return {p.get("name", ""): p.get("value", "") for p in suite.findall("properties/property")}


@pytest.mark.parametrize("module", [plugin, state])
def test_plugin_module_imports_nothing_heavy(module: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(module))
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
    assert {name.partition(".")[0] for name in imported} <= {*sys.stdlib_module_names, "pytest", "lab"}
    assert {name for name in imported if name.startswith("lab")} <= {"lab.pytest_plugin.state"}


def test_run_without_a_lab_is_not_affected(run: Run) -> None:
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
    # match the section headers: paths may contain the words
    for section in ("kailab", "invariants"):
        result.stdout.no_re_match_line(f"-+ {section} -+")
    assert properties(Path("junit.xml")) == {}


def test_environment_and_conftest_activate_the_plugin(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def test_attached(lab): assert lab.spec.name == 'demo'"
    with monkeypatch.context() as patch:
        patch.setenv("KAILAB_LAB", "demo")
        run(text, name=None).assert_outcomes(passed=1)
    pytester.makeconftest(
        """
        from lab.pytest_plugin.plugin import activate

        def pytest_configure(config):
            activate(config)
        """
    )
    run(text, name=None).assert_outcomes(passed=1)
    run(text).assert_outcomes(passed=1)


def test_missing_lab_is_an_error_without_a_traceback(run: Run) -> None:
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
    result.stdout.fnmatch_lines(["no lab named 'other' exists", "  next: kailab up"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_facts_are_properties_of_the_junit_suite(run: Run) -> None:
    result = run("def test_attached(lab): pass", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1)
    found = properties(Path("junit.xml"))
    assert found["kailab.lab"] == "demo"
    assert found["kailab.kai_version"] == "0.16.8"
    result.stdout.fnmatch_lines(["lab demo: GPUs simulated, KAI 0.16.8"])


def test_xdist_worker_sends_its_facts_to_the_controller(lab: FakeLab) -> None:
    worker = SimpleNamespace(stash=pytest.Stash(), workeroutput={})
    worker.stash[plugin.ATTACHED] = lab  # type: ignore[misc]
    plugin.pytest_sessionfinish(SimpleNamespace(config=worker))  # type: ignore[arg-type]
    written: dict[str, str] = {}
    junit = SimpleNamespace(add_global_property=written.__setitem__)
    plugins = SimpleNamespace(get_plugins=lambda: [object(), junit])
    controller = SimpleNamespace(stash=pytest.Stash(), pluginmanager=plugins)
    plugin.pytest_testnodedown(SimpleNamespace(config=controller, workeroutput=worker.workeroutput))
    plugin.pytest_testnodedown(SimpleNamespace(config=controller))  # a worker that crashed
    plugin.pytest_sessionfinish(SimpleNamespace(config=controller))  # type: ignore[arg-type]
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


def test_test_with_unmet_needs_is_skipped_with_the_reason(run: Run, lab: FakeLab) -> None:
    result = run(NEEDY)
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines_random(
        ["*needs 3 GPUs, lab demo has 2 (simulated)", "*needs 1 tenants (own-kai), lab demo has 0"]
    )
    lab.kai_version, lab.kai_reason, lab.gpu_mode = None, "no registry answers", "none"
    result = run(NEEDY)
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines_random(
        ["*lab demo has no KAI: no registry answers", "*needs 3 GPUs, lab demo has 0 (none)"]
    )
    result.stdout.fnmatch_lines(["*not proven*", "*NO KAI (no registry answers)"])
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_skips_in_a_run_without_a_lab_are_nobodys_business(run: Run) -> None:
    result = run("import pytest\ndef test_it(): pytest.skip('why')", name=None)
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize(("version", "passed"), [("0.12.23", 0), ("0.13.0", 1), ("0.17.0-rc.1", 1)])
def test_kai_versions_are_compared(run: Run, lab: FakeLab, version: str, passed: int) -> None:
    lab.kai_version = version
    result = run("import pytest\n@pytest.mark.kai('>=0.13')\ndef test_it(): pass")
    result.assert_outcomes(passed=passed, skipped=1 - passed)


def test_require_turns_the_skip_into_a_failure(run: Run) -> None:
    result = run(NEEDY, "--lab-require", "gpus,kai")
    result.assert_outcomes(passed=1, errors=1, skipped=1)
    result.stdout.fnmatch_lines(["*needs 3 GPUs, lab demo has 2 (simulated) (--lab-require gpus)"])


def test_require_refuses_unknown_needs(run: Run) -> None:
    result = run(NEEDY, "--lab-require", "gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--lab-require: unknown gpu (known: kai, gpus, tenants, nvidia)"])


def test_failed_test_leaves_artifacts(run: Run, lab: FakeLab) -> None:
    text = """
        import pytest

        def test_bad(workloads):
            assert workloads.namespace == "another"

        def test_other_trouble():
            assert False

        @pytest.fixture
        def late(lab):
            yield
            assert False

        def test_late(late):
            pass
    """
    result = run(text, "--lab-artifacts=kept", "--junitxml=junit.xml")
    result.assert_outcomes(failed=2, passed=1, errors=1)
    index, late = sorted(Path("kept").glob("*/kailab-index.txt"))
    assert "test_bad" in index.parent.name
    assert "test_late" in late.parent.name
    assert "lab: demo" in index.read_text()
    result.stdout.fnmatch_lines(["*kailab artifacts*", f"{index.parent.absolute()} (*files)"])
    case = ET.parse("junit.xml").getroot().find("testsuite/testcase/properties/property")
    assert case is not None
    assert case.get("value") == str(index.parent.absolute())
    assert run(text, "--lab-artifacts=none", "--lab-artifacts-seconds=0").ret == 1
    assert not Path("none").exists()


@pytest.mark.parametrize("github", [True, False])
def test_failed_tests_are_annotated_on_github(run: Run, monkeypatch: pytest.MonkeyPatch, github: bool) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true" if github else "")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    result = run("def test_passes(): pass\ndef test_fails(): assert 1 + 1 == 3, 'so, 100 %'\n")
    found = [line for line in result.outlines if line.startswith("::error")]
    assert len(found) == github
    for line in found:
        assert ".py,line=2,title=" in line
        assert "::AssertionError: so, 100 %25%0A" in line
