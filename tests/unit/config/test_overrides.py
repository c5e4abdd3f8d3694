"""Overrides of single values from the environment and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.config import LabSpec, load_spec
from lab.errors import SpecError

LAB = """\
name: demo
gpu:
  perNode: 2
queues:
  - name: default
  - name: test
    parent: default
tenants:
  - name: my-vcluster
  - name: research-cluster
    mode: default
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("lab.yaml").write_text(LAB)
    return Path("lab.yaml")


def lab(file: Path, *settings: str, **environ: str) -> LabSpec:
    return load_spec(file, settings, environ)


def refusal(file: Path, *settings: str, **environ: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_spec(file, settings, environ)
    return list(caught.value.evidence) or [caught.value.what]


def test_command_line_beats_environment_beats_file(file: Path) -> None:
    assert lab(file).gpu.per_node == 2
    assert lab(file, KAILAB_SET_gpu__perNode="3").gpu.per_node == 3
    assert lab(file, "gpu.perNode=4", KAILAB_SET_gpu__perNode="3").gpu.per_node == 4
    assert lab(file, "gpu.perNode=4", "gpu.perNode=5").gpu.per_node == 5


def test_process_environment_is_the_default(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAILAB_SET_name", "from-env")
    assert load_spec(file).name == "from-env"
    assert load_spec(file, environ={}).name == "demo"


def test_list_items_are_addressed_by_index_or_name(file: Path) -> None:
    assert lab(file, "tenants.0.mode=default").tenants[0].mode == "default"
    assert lab(file, "tenants.my-vcluster.mode=default").tenants[0].mode == "default"
    assert lab(file, KAILAB_SET_tenants__1__mode="host-kai").tenants[1].mode == "host-kai"
    assert lab(file, "queues.test.gpu.quota=1.5").queues[1].gpu.quota == 1.5


def test_items_are_appended_by_the_next_index(file: Path) -> None:
    tenants = lab(file, "tenants.2.name=third", "tenants.third.mode=default").tenants
    assert [tenant.name for tenant in tenants] == ["my-vcluster", "research-cluster", "third"]
    assert lab(file, "images.0=ubuntu", "images.1=busybox").images == ("ubuntu", "busybox")


def test_environment_is_applied_in_order_of_paths(file: Path) -> None:
    environ = {f"KAILAB_SET_images__{index}": f"image-{index}" for index in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)}
    environ["KAILAB_SET_images"] = "[]"
    assert lab(file, **environ).images == tuple(f"image-{index}" for index in range(11))


def test_values_are_parsed_as_yaml(file: Path) -> None:
    assert lab(file, "tenants=[]").tenants == ()
    assert lab(file, "kai.gpuSharing=false").kai.gpu_sharing is False
    assert lab(file, "kai.values={scheduler: {replicas: 2}}").kai.values == {"scheduler": {"replicas": 2}}
    assert lab(file, "kai.values.scheduler.replicas=2").kai.values == {"scheduler": {"replicas": 2}}
    assert lab(file, 'name="on"').name == "on"
    assert lab(file, "queues.test.parent=").queues[1].parent is None
    assert lab(file, "gpu.model=A=B", "gpu.memoryMiB=1000").gpu.model == "A=B"
    assert lab(file, "gpu.devices=[0, 2]", "cluster.workers=1").gpu.devices == (0, 2)


def test_escaped_dot_belongs_to_the_key(file: Path) -> None:
    assert lab(file, r"supply.mirrors.ghcr\.io=localhost:5001").supply.mirrors == {"ghcr.io": "localhost:5001"}


NOT_A_NAME = "must be 1 to 40 of a-z, 0-9 and '-', starting with a letter and not ending with '-'"
WRITE_IT_AS = "write it as path=value, for example gpu.perNode=4"
REFUSED = {
    "gpu.perNode": WRITE_IT_AS,
    "=4": WRITE_IT_AS,
    "gpu..perNode=4": WRITE_IT_AS,
    "gpu.perNode=four": "must be a whole number, not 'four'",
    "gpu.perNod=4": "unknown key; perhaps you meant 'perNode'?",
    "gpu.perNode=": "is empty; give it a value or remove the key",
    "name=1": "must be text, not 1; put it in quotes",
    "name.first=x": "name is a single value and cannot contain 'first'",
    "tenants.my-vluster.mode=x": "tenants has no item named 'my-vluster'; perhaps you meant 'my-vcluster'?",
    "tenants.x.mode=x": "tenants has no item named 'x' (items: my-vcluster, research-cluster)",
    "images.x=y": "images has no item named 'x' (the list is empty)",
    "tenants.4.name=x": "tenants has 2 items, numbered from 0; 2 appends one",
    "tenants.2.mode=default": "tenants.2.name: is missing",
    "tenants=[{name: UP}]": f"tenants.0.name: {NOT_A_NAME}, not 'UP'",
    "kai.values={": "the value is not valid YAML: expected the node content, but found '<stream end>'",
    "kai.values={a: 1, a: 2}": "the value is not accepted: duplicate key, first on line 1",
    "cluster.kubernetes=1.35": "must be a version of three numbers, such as 1.34.4, not 1.35",
}


@pytest.mark.parametrize("setting", REFUSED)
def test_errors_name_the_override(file: Path, setting: str) -> None:
    assert refusal(file, setting) == [f"--set {setting}: {REFUSED[setting]}"]


def test_errors_name_the_variable(file: Path) -> None:
    assert refusal(file, KAILAB_SET_gpu__perNode="99") == ["KAILAB_SET_gpu__perNode=99: must be at most 16, not 99"]


def test_violated_rule_names_the_override_that_causes_it(file: Path) -> None:
    (what,) = refusal(file, "scheduler=default")
    assert what == (
        "lab.yaml:9: tenants.0.mode: host-kai needs KAI on the host, but scheduler is 'default'"
        " [scheduler is from --set scheduler=default]"
    )
    (what,) = refusal(file, "scheduler=kai", KAILAB_SET_kai__manage="none")
    assert what == (
        "--set scheduler=kai: 'kai' contradicts kai.manage 'none' [kai.manage is from KAILAB_SET_kai__manage=none]"
    )


def test_errors_of_file_and_overrides_are_reported_together(file: Path) -> None:
    file.write_text(LAB.replace("perNode", "perNod"))
    with pytest.raises(SpecError) as caught:
        load_spec(file, ["scheduler=kia", "tenants.0.mode=none"], {})
    assert str(caught.value) == (
        "3 errors in lab.yaml\n"
        "  | lab.yaml:3: gpu.perNod: unknown key; perhaps you meant 'perNode'?\n"
        "  | --set scheduler=kia: must be 'auto', 'kai' or 'default', not 'kia'; perhaps you meant 'kai'?\n"
        "  | --set tenants.0.mode=none: must be 'host-kai', 'own-kai' or 'default', not 'none'\n"
        "  next: correct the values named above; 'kailab init' writes a lab file with every key explained"
    )


def test_override_errors_are_counted(file: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(file, ["name=A", "gpu.perNode=x"], {})
    assert caught.value.what == "2 errors in the overrides"
