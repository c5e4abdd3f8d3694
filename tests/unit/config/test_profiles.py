"""The shipped profiles, the output of 'kailab init', and the JSON Schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import lab.config
import lab.config.gpu
import lab.config.queue
import lab.config.sections
import lab.config.tenant
from lab.config import (
    LabSpec,
    QueueResource,
    beside_host_kai,
    init_text,
    load_profile,
    load_spec,
    profile_file,
    profile_names,
    schema,
    schema_text,
    tenant_nodes,
)
from lab.errors import SpecError

PROFILES = profile_names()
CASES = Path(__file__).parents[2] / "data" / "config_cases"


def test_profile_names_start_with_demo() -> None:
    assert PROFILES[0] == "demo"
    assert PROFILES[1:] == tuple(sorted(PROFILES[1:]))
    assert {"cpu", "gpu", "gpus", "minimal", "tenants", "versions"} < set(PROFILES)


def test_demo_profile() -> None:
    spec = load_profile("demo", (), {})
    assert (spec.name, spec.cluster.control_planes, spec.cluster.workers) == ("demo", 1, 2)
    assert (spec.gpu.mode, spec.gpu.per_node) == ("auto", 2)
    assert (spec.scheduler, spec.kai.version, spec.kai.gpu_sharing) == ("auto", "0.16.8", True)
    assert [(queue.name, queue.parent) for queue in spec.queues] == [("default", None), ("test", "default")]
    unlimited = QueueResource(quota=-1, limit=-1, weight=1)
    assert all(share == unlimited for queue in spec.queues for share in (queue.gpu, queue.cpu, queue.memory))
    assert [(t.name, t.mode) for t in spec.tenants] == [("my-vcluster", "host-kai"), ("research-cluster", "default")]
    assert spec.leaf_queues == ("test",)


def test_cpu_and_minimal_profiles() -> None:
    cpu, minimal = load_profile("cpu", (), {}), load_profile("minimal", (), {})
    assert (cpu.gpu.mode, cpu.cluster.workers, cpu.tenants, cpu.leaf_queues) == ("none", 1, (), ("test",))
    assert (minimal.gpu.mode, minimal.gpu.per_node, minimal.cluster.workers) == ("simulated", 1, 0)
    assert (minimal.tenants, minimal.leaf_queues) == ((), ("test",))


def test_gpus_profile_has_four_models_and_gpu_profile_real_gpus() -> None:
    gpus, gpu = load_profile("gpus", (), {}), load_profile("gpu", (), {})
    assert [(pool.name, pool.nodes, pool.per_node, pool.model, pool.memory) for pool in gpus.gpu_pools] == [
        ("t4", 1, 2, "Tesla T4", 15360),
        ("l4", 1, 2, "NVIDIA L4", 23034),
        ("a100", 1, 2, "NVIDIA A100-SXM4-40GB", 40960),
        ("h100", 1, 2, "NVIDIA H100 80GB HBM3", 81559),
    ]
    assert (gpus.cluster.workers, gpus.tenants, gpus.leaf_queues) == (4, (), ("test",))
    assert (gpu.gpu.mode, gpu.gpu.devices, gpu.gpu.strategy, gpu.cluster.workers) == ("nvidia", "all", "auto", 1)


def test_versions_profile() -> None:
    spec = load_profile("versions", (), {})
    assert (spec.scheduler, spec.queues, beside_host_kai(spec)) == ("default", (), False)
    assert (spec.cluster.control_planes, spec.cluster.workers, spec.cluster.kubernetes) == (1, 3, "1.34.4")
    assert (spec.gpu.mode, spec.gpu.per_node) == ("simulated", 2)
    assert [(t.name, t.mode, t.kai_version) for t in spec.tenants] == [
        ("team-ml", "own-kai", "0.9.3"),
        ("team-research", "own-kai", "0.7.11"),
        ("team-dev", "default", None),
    ]
    assert [tenant.kubernetes for tenant in spec.tenants if tenant.mode == "own-kai"] == ["1.34.4", "1.34.4"]
    assert tenant_nodes(spec) == {"team-ml": ("worker3",), "team-research": ("worker2",)}


def test_tenants_profile_has_kai_on_the_host_and_in_a_tenant() -> None:
    spec, demo = load_profile("tenants", (), {}), load_profile("demo", (), {})
    assert (spec.scheduler, spec.kai.version, spec.queues) == ("kai", "0.16.8", demo.queues)
    assert (spec.cluster.control_planes, spec.cluster.workers, spec.gpu.per_node) == (1, 3, 2)
    assert [(t.name, t.mode, t.kai_version) for t in spec.tenants] == [
        ("team-host", "host-kai", None),
        ("team-own", "own-kai", "0.16.8"),
    ]
    assert (tenant_nodes(spec), beside_host_kai(spec)) == ({"team-own": ("worker3",)}, True)


@pytest.mark.parametrize("profile", PROFILES)
def test_profile_is_short_and_has_the_name_of_its_file(profile: str) -> None:
    text = profile_file(profile).read_text()
    assert len(text.splitlines()) <= 40
    assert text.startswith("# ")
    assert load_profile(profile, (), {}).name == profile


@pytest.mark.parametrize("profile", PROFILES)
def test_init_text_equals_the_profile(profile: str, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(init_text(profile))
    assert load_spec(file, (), {}) == load_profile(profile, (), {})


@pytest.mark.parametrize("profile", PROFILES)
def test_init_text_explains_every_key(profile: str) -> None:
    text = init_text(profile)
    assert max(len(line) for line in text.splitlines()) <= 110
    models = {**vars(lab.config.sections), **vars(lab.config.gpu), **vars(lab.config.queue), **vars(lab.config.tenant)}
    for name, model in models.items():
        documented = name.endswith(("Spec", "Pool", "Options", "QueueResource", "TenantQuota"))
        if documented and hasattr(model, "model_fields"):
            for key, field in model.model_fields.items():
                assert re.search(rf"^[ #-]*{field.alias or key}:", text, re.M), f"{name}.{key}"
                assert field.description, f"{name}.{key} has no docstring"


@pytest.mark.parametrize("profile", PROFILES)
def test_every_option_of_init_text_can_be_uncommented(profile: str, tmp_path: Path) -> None:
    """A # with one space starts a comment; any other # disables an option."""
    text = re.sub(r"^( *)#(?! \S)(?=.*\S)", r"\1", init_text(profile), flags=re.M)
    assert not re.search(r"^ *#\w", text, re.M)
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    spec, plain = load_spec(file, (), {}), load_profile(profile, (), {})
    # an example replaces an empty list
    assert spec.model_copy(update={"queues": plain.queues, "tenants": plain.tenants}) == plain
    assert len(spec.queues) == max(1, len(plain.queues))
    assert len(spec.tenants) == max(1, len(plain.tenants))


def test_init_text_of_an_unknown_profile_is_refused() -> None:
    with pytest.raises(SpecError, match="unknown profile 'dem'; perhaps you meant 'demo'"):
        init_text("dem")


def test_shipped_schema_is_current() -> None:
    shipped = Path(lab.config.__file__).parent / "lab.schema.json"
    assert shipped.read_text() == schema_text(), "run scripts/generate_schema.py"


def test_schema_is_valid_and_has_id_and_title() -> None:
    head = schema()
    jsonschema.Draft202012Validator.check_schema(head)
    assert head["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert (head["$id"], head["title"]) == ("urn:kailab:lab-file", "kailab lab file")
    assert json.loads(schema_text()) == head


def undescribed(node: Any, path: str = "") -> list[str]:
    """Paths of properties without a description."""
    found = []
    if isinstance(node, dict):
        for key, body in {**node.get("properties", {}), **node.get("$defs", {})}.items():
            if "description" not in body and "$ref" not in body:  # definitions are checked on their own
                found.append(f"{path}.{key}")
        for key, inner in node.items():
            found += undescribed(inner, f"{path}.{key}")
    return found


def test_schema_describes_every_key() -> None:
    assert undescribed(schema()) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_match_the_schema(profile: str) -> None:
    validator = jsonschema.Draft202012Validator(schema())
    validator.validate(yaml.safe_load(profile_file(profile).read_text()))
    validator.validate(yaml.safe_load(init_text(profile)))
    validator.validate(json.loads(lab.config.dump_spec(load_profile(profile, (), {}))))


def test_schema_refuses_invalid_values() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    for case in ("unknown_keys", "wrong_values"):
        assert not validator.is_valid(yaml.safe_load((CASES / f"{case}.yaml").read_text()))
    good = LabSpec().model_dump(mode="json", by_alias=True)
    validator.validate(good)
    for section, key, value in (("gpu", "perNode", "2"), ("kai", "gpuSharing", "yes"), ("cluster", "kubernetes", 1.34)):
        assert not validator.is_valid({**good, section: {**good[section], key: value}})
