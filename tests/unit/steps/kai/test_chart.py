"""Each line against its charts: the renders in kai_renders, recorded from KAI's sources at each tag."""

from __future__ import annotations

import random
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.kai import line_of, lines
from lab.kai.chart import KaiChart, chart_of, differences
from lab.steps.helm_release import chart_documents
from lab.steps.kai.chart import applied_by_jobs, chart_seen
from tests.support.builders import chart_file
from tests.support.kai_renders import FOLDER, recorded, versions, write

NEW, OLD = "0.16.8", "0.7.11"
VALUES = """
global: {registry: r, gpuSharing: false}
binder: {image: {name: binder}, resourceReservationImage: {name: reservation}}
"""
JOB = {
    "kind": "Job",
    "metadata": {
        "name": "crd-upgrader",
        "annotations": {"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-succeeded"},
    },
    "spec": {"template": {"spec": {"containers": [{"image": "r/crd-upgrader:v1"}]}}},
}
BINDER = {
    "kind": "Deployment",
    "metadata": {"name": "binder"},
    "spec": {
        "template": {
            "spec": {
                "initContainers": [{"image": "reg:5000/r/init@sha256:0"}],
                "containers": [{"image": "r/binder:v1"}],
            }
        }
    },
}
CLASS = {"kind": "PriorityClass", "metadata": {"name": "train"}, "value": 50}
APPLIED = {
    "kind": "ConfigMap",
    "metadata": {"name": "manifest"},
    "data": {"a.yaml": "kind: Config\nmetadata: {name: kai-config}\n", "script.sh": "kind: no"},
}


def test_first_tested_and_last_version_of_each_line_are_recorded() -> None:
    wanted = {v for line in lines().values() for v in (line.first, line.version, line.last)}
    wanted |= set(lines())
    assert set(versions()) == wanted


@pytest.mark.parametrize("version", versions())
def test_chart_matches_its_line(version: str) -> None:
    line, chart = line_of(version), recorded(version)
    assert (line.exact, chart.version) == (True, version)
    assert differences(line, chart) == []


@pytest.mark.parametrize(
    ("version", "change", "message"),
    [
        (NEW, {"values": ("admission",)}, "helm.registry: the chart has no value global.registry"),
        (NEW, {"values": ()}, "deployments.kai-operator: the chart has no value operator"),
        (NEW, {"values": ()}, "component_switch is True, but the chart's binder.enabled contradicts it"),
        (NEW, {"objects": ()}, "Deployment kai-operator: not in the chart"),
        (NEW, {"objects": ("Deployment/binder",)}, "Deployment binder: in the chart, not in the data"),
        (OLD, {"objects": ()}, "webhook configuration kai-binder: not in the chart"),
        (NEW, {"objects": ("ValidatingWebhookConfiguration/x",)}, "webhook configuration x: in the chart"),
        (NEW, {"objects": ()}, "Queue default-queue: not in the chart"),
        (NEW, {"objects": ()}, "reservation_namespace: the chart has no namespace kai-resource-reservation"),
        (OLD, {"objects": ("SchedulingShard/default",)}, "the data lacks a SchedulingShard"),
        (NEW, {"priorities": ("train=51",)}, "PriorityClass train=50: not in the chart"),
        (NEW, {"crds": ()}, "CRD of the chart topologies.kai.scheduler: not in the chart"),
        (OLD, {"crds": ("queues.scheduling.run.ai",)}, "CRD of the chart queues.scheduling.run.ai: in the chart"),
        (OLD, {"hook_images": ("crd-upgrader",)}, "image of hook Jobs webhookmanager: not in the chart"),
        (NEW, {"images": ()}, "images: the chart names no image scalingpod"),
        (NEW, {"lasting_jobs": ("crd-upgrader",)}, "stale_hook_job is False, but the chart's hook Job contradicts it"),
        (NEW, {"templates": ()}, "config_template: the chart has no templates/hooks/post/"),
        (NEW, {"templates": ()}, "queue_template: the chart has no templates/default-queue.yaml"),
        (NEW, {"inside": ()}, "config_template: the chart renders no Config/kai-config"),
    ],
)
def test_difference_from_the_line_is_reported(version: str, change: dict[str, Any], message: str) -> None:
    found = differences(line_of(version), replace(recorded(version), **change))
    assert [line for line in found if line.startswith(message)], found


def test_contradictory_line_is_reported() -> None:
    found = differences(replace(line_of(NEW), component_switch=False), recorded(NEW))
    assert [line for line in found if line.startswith("component_switch is False")] == found != []


def test_chart_properties_are_extracted() -> None:
    templates = {
        "templates/map.yaml": "kind: ConfigMap\n{{ .Values.binder.runtimeClassName }}",
        "templates/queue.yaml": "  kind: Queue\n",
        "templates/binder.yaml": "kind: Deployment # for kind: Queue\n{{- if .Values.global.gpuSharing }}",
    }
    values = {"global": {"gpuSharing": False}, "binder": {"image": {"name": "binder"}, "cdi": None}}
    crds = [{"kind": "CustomResourceDefinition", "metadata": {"name": "b"}}, {"kind": "Other"}]
    kept = {**JOB, "metadata": {**JOB["metadata"], "name": "again", "annotations": {"helm.sh/hook": "pre-install"}}}  # type: ignore[dict-item]
    rendered = [JOB, kept, BINDER, CLASS, APPLIED]
    assert chart_of("1.0.0", values, templates, crds, rendered, applied_by_jobs(rendered)) == KaiChart(
        version="1.0.0",
        values=(
            "binder",
            "binder.cdi",
            "binder.image",
            "binder.image.name",
            "binder.runtimeClassName",
            "global",
            "global.gpuSharing",
        ),
        objects=("ConfigMap/manifest", "Deployment/binder", "Job/again", "Job/crd-upgrader", "PriorityClass/train"),
        inside=("Config/kai-config",),
        crds=("b",),
        images=("binder", "crd-upgrader", "init"),
        hook_images=("crd-upgrader",),
        lasting_jobs=("crd-upgrader",),
        priorities=("train=50",),
        templates=("templates/map.yaml", "templates/queue.yaml"),
    )


def test_chart_file_is_read_and_rendered_once(tmp_path: Path) -> None:
    files = {
        "Chart.yaml": "version: v0.16.8\n",
        "values.yaml": VALUES,
        "templates/map.yaml": "kind: ConfigMap\n",
        "crds/a.yaml": "kind: CustomResourceDefinition\nmetadata: {name: a}\n",
    }
    path = chart_file(tmp_path / "kai.tgz", "kai-scheduler", files)
    calls: list[tuple[Any, ...]] = []

    def template(*words: Any) -> tuple[dict[str, Any], ...]:
        calls.append(words)
        return (APPLIED,)

    chart = chart_seen(path, line_of("0.16.8"), template)
    assert calls == [("kai-scheduler", path, "kai-scheduler", {})]
    assert (chart.version, chart.crds, chart.inside) == ("0.16.8", ("a",), ("Config/kai-config",))
    assert chart.images == ("binder", "reservation")
    assert chart.templates == ("templates/map.yaml",)


def test_recorded_chart_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chart = recorded(NEW)
    monkeypatch.setattr("tests.support.kai_renders.FOLDER", tmp_path)
    write(chart)
    assert (tmp_path / f"{NEW}.json").read_text() == (FOLDER / f"{NEW}.json").read_text()
    assert recorded(NEW) == chart


def test_cut_chart_is_named(tmp_path: Path) -> None:
    (tmp_path / "chart.yaml").write_bytes(random.Random(0).randbytes(4096))
    chart = tmp_path / "chart.tgz"
    with tarfile.open(chart, "w:gz") as tar:
        tar.add(tmp_path / "chart.yaml", "x/crds/a.yaml")
    chart.write_bytes(chart.read_bytes()[:-2000])
    with pytest.raises(LabError, match=r"the chart .*/chart\.tgz is unreadable"):
        chart_documents(chart, "crds")
