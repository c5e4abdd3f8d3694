"""Selection of the lab file, its content, and the round trip through the state directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.config import (
    LabSpec,
    QueueResource,
    TenantSpec,
    dump_spec,
    load_dumped,
    load_profile,
    load_spec,
    profile_names,
    resolve_spec,
)
from lab.errors import SpecError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str, name: str = "lab.yaml") -> Path:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_default_is_lab_yaml_or_demo() -> None:
    assert resolve_spec(None, None, (), {}) == load_profile("demo", (), {})
    write("name: mine\n")
    assert resolve_spec(None, None, (), {}).name == "mine"
    assert resolve_spec(None, "minimal", (), {}).name == "minimal"


def test_named_file_wins_over_lab_yaml() -> None:
    write("name: mine\n")
    other = write("name: other\n", "labs/other.yaml")
    assert resolve_spec(other, None, ["gpu.perNode=1"], {}).name == "other"


def test_broken_link_is_refused() -> None:
    Path("lab.yaml").symlink_to("gone.yaml")
    with pytest.raises(SpecError, match=r"^lab\.yaml: file not found"):
        resolve_spec(None, None, (), {})


def test_file_and_profile_are_mutually_exclusive() -> None:
    with pytest.raises(SpecError) as caught:
        resolve_spec(Path("a.yaml"), "demo")
    assert str(caught.value) == (
        "lab file a.yaml and profile demo are mutually exclusive\n  next: use either -f or --profile"
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("mimimal", "unknown profile 'mimimal'; perhaps you meant 'minimal'?"),
        ("../profiles/demo", "unknown profile '../profiles/demo'"),
    ],
)
def test_unknown_profile_is_refused(name: str, what: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_profile(name, (), {})
    assert (caught.value.what, caught.value.fix) == (what, f"use one of: {', '.join(profile_names())}")


def test_anchors_and_merge_keys_are_supported() -> None:
    spec = load_spec(
        write(
            "queues:\n"
            "  - &base\n"
            "    name: default\n"
            "    gpu: &share {quota: 2, limit: 4}\n"
            "  - <<: *base\n"
            "    name: test\n"
            "    parent: default\n"
            "    cpu: *share\n"
        ),
        ["queues.test.cpu.quota=1"],
        {},
    )
    test = spec.queues[1]
    assert (test.name, test.gpu, test.cpu.quota) == ("test", QueueResource(quota=2, limit=4), 1)
    assert spec.queues[0].gpu.quota == 2


def test_dates_stay_text_and_windows_line_endings_are_accepted() -> None:
    spec = load_spec(write("name: demo\r\nkai:\r\n  values: {since: 2026-11-21, eq: =}\r\n"), (), {})
    assert spec.kai.values == {"since": "2026-11-21", "eq": "="}


def test_relative_paths_start_at_the_lab_file_or_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    file = write("supply:\n  bundle: bundles/lab.tar\n", "labs/lab.yaml")
    assert load_spec(file, (), {}).supply.bundle == tmp_path / "labs/bundles/lab.tar"
    assert load_spec(file, ["supply.bundle=lab.tar"], {}).supply.bundle == tmp_path / "lab.tar"
    assert load_spec(file, ["supply.bundle=~/lab.tar"], {}).supply.bundle == Path("/home/me/lab.tar")
    assert load_spec(file, ["supply.bundle=~nobody-here/x"], {}).supply.bundle == tmp_path / "~nobody-here/x"


def test_queue_shares_have_defaults() -> None:
    spec = load_spec(write("queues: [{name: a, gpu: {limit: 4}}, {name: b, gpu: {quota: 4, limit: 4}}]\n"), (), {})
    assert spec.queues[0].gpu == QueueResource(quota=-1, limit=4, weight=1)
    assert spec.leaf_queues == ("a", "b")


def test_saved_lab_has_the_warnings_of_its_file() -> None:
    """Defaults that the user did not write are in the saved text: 'kailab reset' warned of gpu.devices."""
    for gpu in ({"mode": "simulated"}, {"mode": "simulated", "devices": [0]}):
        spec = LabSpec.model_validate({"gpu": gpu})
        assert load_dumped(dump_spec(spec)).warnings() == spec.warnings()


@pytest.mark.parametrize("profile", profile_names())
def test_dump_is_read_back(profile: str) -> None:
    spec = load_profile(profile, ["kai.values={a: [1, 2.5, null, x]}", "queues=[{name: test, gpu: {limit: 2}}]"], {})
    again = load_dumped(dump_spec(spec))
    assert again == spec
    assert dump_spec(again) == dump_spec(spec)
    assert '"perNode"' in dump_spec(spec)


KEYS = "name, cluster, gpu, scheduler, kai, budget, queues, tenants, inference, images, supply"


def test_dump_holds_defaults() -> None:
    assert '"version": "0.16.8"' in dump_spec(LabSpec())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"name": "demo", "gpu": {"perNod', "Invalid JSON: EOF while parsing a string at line 1 column 32"),
        ('{"colour": "green"}', f"colour: unknown key; known keys: {KEYS}"),
    ],
)
def test_damaged_dump_is_refused(text: str, line: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_dumped(text)
    assert caught.value.what == "the lab's saved settings are not readable by this version of kailab"
    assert caught.value.evidence == (line,)


def test_models_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        LabSpec().name = "other"


def test_python_names_are_not_accepted_in_files() -> None:
    assert TenantSpec(name="a", mode="own-kai", kai_version="0.16.8").kai_version == "0.16.8"
    with pytest.raises(SpecError, match="perhaps you meant 'perNode'"):
        load_spec(write("gpu:\n  per_node: 2\n"), (), {})
