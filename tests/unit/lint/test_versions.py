"""Keys and chart values against the version of KAI that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.kai import line_of
from lab.lint import LintContext, lint, lint_files, parse

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  labels: {{kai.scheduler/queue: default-queue}}
  annotations: {{{key}: x}}
spec: {{schedulerName: kai-scheduler, containers: [{{name: c}}]}}
"""


def unknown(key: str, version: str) -> list[tuple[str, str]]:
    found = lint(parse(POD.format(key=key)), LintContext(line_of(version)))
    return [(one.severity, one.next) for one in found if one.rule == "key-unknown"]


@pytest.mark.parametrize(
    ("key", "version", "fix"),
    [
        ("kai.scheduler/preemption-delay", "0.16.8", "KAI 0.17.0 and newer read it"),
        ("kai.scheduler/segment-topology-required-placement", "0.12.23", "KAI 0.13.0 and newer read it"),
        ("scheduling.kai.io/queue", "0.16.8", "perhaps you meant kai.scheduler/queue"),
        ("runai/queue", "0.16.8", "perhaps you meant kai.scheduler/queue"),
    ],
)
def test_keys_that_a_version_does_not_read(key: str, version: str, fix: str) -> None:
    ((severity, hint),) = unknown(key, version)
    assert (severity, hint) == ("warning", fix)


@pytest.mark.parametrize(
    ("key", "version"),
    [
        ("kai.scheduler/preemption-delay", "0.17.0"),
        ("kai.scheduler/staleness-grace-period", "0.17.0"),
        ("kai.scheduler/task-priority", "0.9.20"),
        ("kai.scheduler/topology", "0.9.20"),
        ("kai.scheduler/segment-topology-required-placement", "0.16.8"),
    ],
)
def test_keys_that_a_version_reads(key: str, version: str) -> None:
    assert unknown(key, version) == []


def test_a_key_of_a_newer_kai_is_never_advised_away() -> None:
    ((severity, hint),) = unknown("kai.scheduler/of-the-future", "0.99.0")
    assert severity == "note"
    assert hint == "look for it in the documentation of KAI 0.99.0"


@pytest.mark.parametrize(("version", "found"), [("0.16.8", False), ("0.9.20", True)])
def test_values_that_a_chart_does_not_read(version: str, found: bool) -> None:
    text = "global: {gpuSharing: true}\ndefaultQueue:\n  createDefaultQueue: true\n"
    warnings = [one for one in lint(parse(text), LintContext(line_of(version))) if one.rule == "kai-value-unknown"]
    assert [(one.line, "Helm ignores it" in one.what) for one in warnings] == ([(3, True)] if found else [])


@pytest.mark.parametrize(("version", "read"), [("0.9.20", False), ("0.14.7", False), ("0.16.8", True)])
def test_a_value_that_no_template_reads(version: str, read: bool) -> None:
    text = "podgrouper: {queueLabelKey: team}\n"
    hints = [one.next for one in lint(parse(text), LintContext(line_of(version))) if one.rule == "kai-value-unknown"]
    assert hints == ([] if read else ["KAI 0.16.0 and newer read it"])


@pytest.mark.parametrize(
    ("version", "api", "kind", "found"),
    [
        ("0.17.0", "scheduling.run.ai/v2alpha2", "PodGroup", []),
        ("0.17.0", "scheduling.run.ai/v1", "PodGroup", ["write apiVersion: scheduling.run.ai/v2alpha2"]),
        ("0.17.0", "scheduling.kai.nvidia.com/v2alpha2", "PodGroup", ["write apiVersion: scheduling.run.ai/v2alpha2"]),
        ("0.17.0", "scheduling.run.ai/v1alpha1", "AccountedResource", ["remove it"]),
        ("0.17.0", "kai.scheduler/v1alpha1", "Topology", []),
        ("0.9.20", "kai.scheduler/v1alpha1", "Topology", ["KAI 0.12.0 and newer have it"]),
        ("0.9.20", "kueue.x-k8s.io/v1alpha1", "Topology", []),
        ("0.7.0", "kai.scheduler/v1", "Config", ["KAI 0.8.5 and newer have it"]),
        ("0.99.0", "kai.scheduler/v9", "Future", ["look for it in the CRDs of KAI 0.99.0"]),
        ("0.17.0", "scheduling.volcano.sh/v1beta1", "PodGroup", []),
    ],
)
def test_kinds_that_a_version_does_not_have(version: str, api: str, kind: str, found: list[str]) -> None:
    text = f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{}}\n"
    seen = [one for one in lint(parse(text), LintContext(line_of(version))) if one.rule == "kai-kind-unknown"]
    assert [one.next for one in seen] == found
    assert all(one.severity == ("note" if version == "0.99.0" else "error") for one in seen)


def test_values_that_a_command_sets_have_their_lines(tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(
        "```bash\nhelm upgrade -i kai-scheduler oci://ghcr.io/x/kai-scheduler \\\n"
        '  --set "global.gpuSharing=true" \\\n  --set scheduler.gpuSharing.enabled=true\n'
        "helm install gpu-operator nvidia/gpu-operator --set driver.enabled=false\n```\n"
    )
    found = lint_files([guide], LintContext(line_of("0.16.8")))
    assert [(one.line, one.rule, one.severity) for one in found] == [(4, "kai-value-unknown", "warning")]
    assert "scheduler.gpuSharing.enabled" in found[0].what


_NO_DEFAULT_QUEUE = "the chart of KAI 0.9.20 does not read defaultQueue.createDefaultQueue"


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("", []),
        ("--version v0.9.20 ", [_NO_DEFAULT_QUEUE]),
        ('--version="0.9.20" ', [_NO_DEFAULT_QUEUE]),
        ("--version v0.17.0 ", []),
        ("--version $VERSION ", []),
        ("https://x/v0.9.20/kai-scheduler-v0.9.20.tgz ", [_NO_DEFAULT_QUEUE]),
        ("https://x/kai-scheduler-0.17.0-rc.1.tgz ", []),
        ("--version 0.1.0 ", []),
    ],
)
def test_a_command_names_the_version_whose_values_it_sets(tmp_path: Path, version: str, found: list[str]) -> None:
    guide = tmp_path / "guide.sh"
    command = f"helm upgrade -i kai oci://x/kai-scheduler {version}\\\n  --set defaultQueue.createDefaultQueue=false\n"
    guide.write_text(command)
    seen = lint_files([guide], LintContext(line_of("0.16.8")))
    assert [one.what.partition(";")[0] for one in seen] == found
