"""What tenants need of an existing cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.errors import SpecError
from lab.tenants.preflight import refuse_unfit
from tests.support.fakes import FakeRunner
from tests.support.lab_world import LabWorld
from tests.support.specs import EXISTING, lab_spec, tenant_spec

DEFAULT = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}


def volume(**claim: Any) -> dict[str, Any]:
    return {"controlPlane": {"statefulSet": {"persistence": {"volumeClaim": claim}}}}


def world_of(runner: FakeRunner, tmp_path: Path, values: dict[str, Any], **spec: Any) -> LabWorld:
    tenants = [tenant_spec("default", values=values).model_dump()]
    return LabWorld(lab_spec(cluster=EXISTING, gpus="none", tenants=tenants, **spec), runner, tmp_path)


@pytest.mark.parametrize(
    ("values", "classes"), [({}, {"fast": {}}), ({}, {}), (volume(storageClass="slow"), {"fast": DEFAULT})]
)
def test_volumes_need_a_storage_class(
    runner: FakeRunner, tmp_path: Path, values: dict[str, Any], classes: dict[str, Any]
) -> None:
    world = world_of(runner, tmp_path, values)
    for name, metadata in classes.items():
        world.api.put("StorageClass", name, metadata=metadata)
    with pytest.raises(SpecError, match="tenant team-a keeps its objects in a volume") as refused:
        refuse_unfit(world.ctx, world.spec)
    assert "values.controlPlane.statefulSet.persistence.volumeClaim.storageClass" in refused.value.fix
    assert world.log == []


@pytest.mark.parametrize(
    ("values", "classes"),
    [({}, {"fast": DEFAULT}), (volume(storageClass="slow"), {"slow": {}}), (volume(enabled=False), {})],
)
def test_volumes_that_can_be_made_are_accepted(
    runner: FakeRunner, tmp_path: Path, values: dict[str, Any], classes: dict[str, Any]
) -> None:
    world = world_of(runner, tmp_path, values)
    for name, metadata in classes.items():
        world.api.put("StorageClass", name, metadata=metadata)
    refuse_unfit(world.ctx, world.spec)


def test_pull_secrets_must_exist(runner: FakeRunner, tmp_path: Path) -> None:
    world = world_of(runner, tmp_path, volume(enabled=False), supply={"pullSecrets": ["pull"]})
    with pytest.raises(SpecError, match=r"supply\.pullSecrets: Secret default/pull does not exist"):
        refuse_unfit(world.ctx, world.spec)
    world.api.put("Secret", "pull", "default", type="kubernetes.io/dockerconfigjson", data={})
    refuse_unfit(world.ctx, world.spec)
