from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.errors import CommandFailed, LabError
from lab.tools.helm import Helm, Release
from tests.support.builders import release_secret
from tests.support.fakes import FakeRunner

BINARY, KUBECONFIG = Path("/cache/helm"), Path("/labs/demo/kubeconfig")
TARGET = ["--kubeconfig", str(KUBECONFIG), "--kube-context", "kind-kailab-demo"]


@pytest.fixture
def helm(runner: FakeRunner) -> Helm:
    return Helm(runner, BINARY, KUBECONFIG, "kind-kailab-demo")


def test_install_passes_cluster_context_and_values_on_stdin(helm: Helm, runner: FakeRunner) -> None:
    command = runner.handle("/cache/helm upgrade")
    helm.upgrade_install("kai", Path("/c/kai.tgz"), "kai-ns", {"global": {"gpuSharing": True}}, timeout=60)
    call = command.calls[0]
    assert list(call.argv) == [
        "/cache/helm",
        "upgrade",
        "--install",
        "kai",
        "/c/kai.tgz",
        "--namespace",
        "kai-ns",
        "--values",
        "-",
        "--reset-values",
        "--history-max",
        "3",
        "--timeout",
        "60s",
        *TARGET,
    ]
    assert json.loads(str(call.stdin)) == {"global": {"gpuSharing": True}}
    assert call.timeout is not None
    assert call.timeout > 60


def test_install_options(helm: Helm, runner: FakeRunner) -> None:
    command = runner.handle("/cache/helm upgrade")
    chart = Path("/c/kai.tgz")
    helm.upgrade_install("k", chart, "n", {}, hooks=False, crds=False, validate=False, take_ownership=True)
    helm.upgrade_install("k", chart, "n", {})
    options = {"--no-hooks", "--skip-crds", "--disable-openapi-validation", "--take-ownership"}
    assert options <= set(command.calls[0].argv)
    assert not options & set(command.calls[1].argv)


def test_helm_settings_of_the_user_are_overridden(
    helm: Helm, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HELM_NAMESPACE", "theirs")
    monkeypatch.setenv("HELM_DRIVER", "sql")
    monkeypatch.setenv("HELM_KUBETOKEN", "secret")
    monkeypatch.setenv("HELM_PLUGINS", "/home/user/plugins")
    command = runner.handle("/cache/helm uninstall")
    helm.uninstall("kai", "n")
    env = dict(command.calls[0].env or {})
    assert env["HELM_NAMESPACE"] == env["HELM_KUBETOKEN"] == ""
    assert env["HELM_DRIVER"] == "secret"
    ours = (
        "CACHE_HOME",
        "CONFIG_HOME",
        "DATA_HOME",
        "PLUGINS",
        "REGISTRY_CONFIG",
        "REPOSITORY_CONFIG",
        "REPOSITORY_CACHE",
    )
    for name in (*(f"HELM_{key}" for key in ours), "KUBECACHEDIR"):
        assert env[name].startswith(str(tmp_path / "cache")), name


def test_uninstall_ignores_missing_release(helm: Helm, runner: FakeRunner) -> None:
    command = runner.handle("/cache/helm uninstall kai --namespace n --ignore-not-found --timeout 9s --no-hooks")
    helm.uninstall("kai", "n", hooks=False, timeout=9)
    assert list(command.calls[0].argv[-4:]) == TARGET


def test_template_returns_objects_of_selected_templates(helm: Helm, runner: FakeRunner) -> None:
    text = "---\n# Source: a\nkind: A\n---\n---\nkind: B\n"
    command = runner.handle("/cache/helm template kai /c.tgz", out=text)
    docs = helm.template("kai", Path("/c.tgz"), "n", {"a": 1}, only=["templates/a.yaml", "templates/b.yaml"])
    assert [doc["kind"] for doc in docs] == ["A", "B"]
    assert command.calls[0].argv.count("--show-only") == 2


def test_failure_includes_helm_error_output(helm: Helm, runner: FakeRunner) -> None:
    runner.handle("/cache/helm upgrade", err="Error: chart requires kubeVersion", code=1)
    with pytest.raises(CommandFailed) as failure:
        helm.upgrade_install("kai", Path("/c.tgz"), "n", {})
    assert "kubeVersion" in str(failure.value)


def test_release_is_read_from_helm_secret() -> None:
    secret = release_secret("kai", "n", {"a": {"b": 1}}, version="v0.16.8", chart="kai-scheduler", revision=3)
    release = Release.of_secret(secret)
    assert release == Release("kai", "n", 3, "deployed", "kai-scheduler", "v0.16.8", {"a": {"b": 1}})


@pytest.mark.parametrize("data", [{}, {"release": "!!"}, {"release": "aGVsbG8="}, {"release": "SDRzSUFBPT0="}])
def test_damaged_helm_secret_is_named(data: dict[str, str]) -> None:
    with pytest.raises(LabError, match=r"sh\.helm\.x is not a Helm release"):
        Release.of_secret({"metadata": {"name": "sh.helm.x"}, "data": data})
