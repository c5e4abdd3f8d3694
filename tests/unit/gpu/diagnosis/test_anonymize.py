"""Facts of a machine that may be kept: nothing names its owner or its hardware, and they can be read again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from lab.gpu.diagnosis.anonymize import portable
from lab.host.facts import HostFacts
from lab.host.nvidia.strategies import choose_strategy
from tests.support.nvidia_world import OTHER_UUID, PRIVATE_HOST, PRIVATE_NVIDIA, PRIVATE_UUID
from tests.support.portable_facts import facts_from


def written(host: HostFacts = PRIVATE_HOST) -> str:
    return json.dumps(portable(host, PRIVATE_NVIDIA, Path("/home/ada"), "box7"))


def test_nothing_names_owner_or_hardware() -> None:
    text = written()
    assert "ada" not in text
    assert "box7" not in text
    assert PRIVATE_UUID not in text
    assert OTHER_UUID not in text
    assert "~/.cache/kailab" in text
    assert "host does not answer" in text


def test_the_same_gpu_has_the_same_number_everywhere() -> None:
    data = json.loads(written())
    first = [one["uuid"] for one in data["host"]["gpu"]["gpus"]]
    assert first == ["GPU-00000000-0000-4000-8000-000000000000", "GPU-00000000-0000-4000-8000-000000000001"]
    assert [one["uuid"] for one in data["nvidia"]["nvml"]["gpus"]] == first


def test_kept_facts_are_read_again_and_decide_the_same() -> None:
    host, nvidia = facts_from(json.loads(written()))
    assert (host.cores, host.go, host.os.debian) == (2, (1, 26), True)
    assert host.engines[0].root_dir == "~/docker"
    assert host.gpu == nvidia.nvml
    assert choose_strategy(nvidia) == choose_strategy(PRIVATE_NVIDIA)
    again = portable(host, nvidia, Path("/home/ada"), "box7")
    assert json.loads(json.dumps(again)) == json.loads(written())


def test_a_machine_without_go_is_read_again() -> None:
    assert facts_from(json.loads(written(replace(PRIVATE_HOST, go=None))))[0].go is None


def test_what_are_no_facts_is_refused() -> None:
    data = json.loads(written())
    data["host"]["cores"] = "many"
    with pytest.raises(ValidationError):
        facts_from(data)
