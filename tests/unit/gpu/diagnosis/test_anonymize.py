"""Anonymized facts of a machine: without names of owner or hardware, and readable again."""

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


def anonymized(host: HostFacts = PRIVATE_HOST) -> str:
    return json.dumps(portable(host, PRIVATE_NVIDIA, Path("/home/ada"), "box7"))


def test_facts_name_neither_owner_nor_hardware() -> None:
    text = anonymized()
    assert "ada" not in text
    assert "box7" not in text
    assert PRIVATE_UUID not in text
    assert OTHER_UUID not in text
    assert "~/.cache/kailab" in text
    assert "host does not answer" in text


def test_each_gpu_has_one_number_everywhere() -> None:
    data = json.loads(anonymized())
    first = [device["uuid"] for device in data["host"]["gpu"]["gpus"]]
    assert first == ["GPU-00000000-0000-4000-8000-000000000000", "GPU-00000000-0000-4000-8000-000000000001"]
    assert [device["uuid"] for device in data["nvidia"]["nvml"]["gpus"]] == first


def test_facts_are_read_back_and_give_the_same_strategy() -> None:
    host, nvidia = facts_from(json.loads(anonymized()))
    assert (host.cores, host.go, host.os.debian) == (2, (1, 26), True)
    assert host.engines[0].root_dir == "~/docker"
    assert host.gpu == nvidia.nvml
    assert choose_strategy(nvidia) == choose_strategy(PRIVATE_NVIDIA)
    again = portable(host, nvidia, Path("/home/ada"), "box7")
    assert json.loads(json.dumps(again)) == json.loads(anonymized())


def test_facts_without_go_are_read_back() -> None:
    assert facts_from(json.loads(anonymized(replace(PRIVATE_HOST, go=None))))[0].go is None


def test_invalid_facts_are_refused() -> None:
    data = json.loads(anonymized())
    data["host"]["cores"] = "many"
    with pytest.raises(ValidationError):
        facts_from(data)
