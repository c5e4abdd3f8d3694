"""Version lines of KAI: which releases belong to each, and the values of their files."""

from __future__ import annotations

import dataclasses
import itertools
import json
import typing
from typing import Any

import pytest

from lab.errors import LabError, SpecError
from lab.kai import HelmKeys, Keys, VersionLine, cured_in, facts, line_of, lines, names, release, version_of
from lab.kai.files import NOT_IN_FILES, merged, source, sources
from lab.serialization import to_json
from lab.steps.helm_release import base_values

EVERY: dict[str, Any] = {
    **{field.name: "" for field in dataclasses.fields(VersionLine) if field.name not in NOT_IN_FILES},
    "by_operator": ["binder"],
    "deployments": {"binder": "binder"},
    "features": {"gang": "0.7.0", "segment": "1.2.3"},
    "keys": {field.name: "gpu-fraction" for field in dataclasses.fields(Keys)},
    "helm": {field.name: "global.registry" for field in dataclasses.fields(HelmKeys)},
}
OWN: dict[str, Any] = {"version": "1.2.5", "first": "1.2.0", "last": "1.2.9"}


def test_lines_and_their_tested_versions() -> None:
    assert [(line.name, version) for version, line in lines().items()] == [
        ("0.7", "0.7.11"),
        ("0.8", "0.8.5"),
        ("0.9.1", "0.9.3"),
        ("0.9.4", "0.9.6"),
        ("0.9.7", "0.9.8"),
        ("0.10", "0.10.5"),
        ("0.12", "0.12.23"),
        ("0.13", "0.13.4"),
        ("0.14", "0.14.7"),
        ("0.15", "0.15.3"),
        ("0.16", "0.16.8"),
        ("0.17", "0.17.0"),
    ]
    for version, line in lines().items():
        assert line.exact
        assert not line.warning
        assert release(line.first) <= release(version) <= release(line.last)
        assert line_of(version) == line


def test_no_release_belongs_to_two_lines() -> None:
    ranges = [(release(line.first), release(line.last)) for line in lines().values()]
    assert all(first <= last for first, last in ranges)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges)), ranges


@pytest.mark.parametrize(
    ("version", "line"),
    [("0.16.2", "0.16"), ("0.9.0", "0.9.1"), ("0.9.5", "0.9.4"), ("0.9.20", "0.9.7"), ("0.7.13", "0.7")],
)
def test_each_known_release_has_its_line(version: str, line: str) -> None:
    found = line_of(version)
    assert (found.name, found.version, found.tag, found.exact) == (line, version, f"v{version}", True)


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("0.16.9", "0.16"),  # newer than the last known release of its line
        ("0.9.21", "0.9.7"),
        ("0.9.4-rc.0", "0.9.4"),  # a release candidate is not a release
        ("0.11.0", "0.10"),  # minor without a line: the previous line
    ],
)
def test_unknown_version_gets_the_nearest_line_with_a_warning(version: str, line: str) -> None:
    found = line_of(version)
    assert (found.name, found.version, found.exact) == (line, version, False)
    assert found.warning.startswith(f"KAI {version} is unknown; the lab treats it like line {line} (")
    assert not found.newer
    assert found.tag == f"v{version}"
    assert found.config_template == ""


@pytest.mark.parametrize("version", ["0.17.1", "0.18.3", "0.20.1", "1.0.0"])
def test_version_newer_than_all_known_says_so(version: str) -> None:
    found = line_of(version)
    assert (found.name, found.version, found.exact, found.newer) == ("0.17", version, False, True)
    about = "newer than all releases that kailab knows (to 0.17.0)"
    assert found.warning == f"KAI {version} is {about}; the lab treats it like line 0.17 (0.17.0)"
    assert found.keys == line_of("0.17.0").keys
    assert found.defects == line_of("0.17.0").defects


@pytest.mark.parametrize("version", ["0.6.23", "0.0.1"])
def test_version_older_than_all_lines_is_refused(version: str) -> None:
    with pytest.raises(SpecError, match=f"KAI {version} is older") as caught:
        line_of(version)
    assert "0.7.11" in caught.value.fix


@pytest.mark.parametrize("version", ["latest", "0.16", "", "0.16.8.1"])
def test_invalid_version_is_refused(version: str) -> None:
    with pytest.raises(SpecError, match="invalid version"):
        line_of(version)


def test_versions_are_compared_as_numbers() -> None:
    assert release("0.9.20") > release("0.9.3")
    assert release("v0.9.4-rc.0") < release("0.9.4")


def test_chart_address_follows_the_move_of_the_project() -> None:
    for before, after in (("0.9.15", "0.9.16"), ("0.12.17", "0.12.18")):
        assert line_of(before).chart == "oci://ghcr.io/nvidia/kai-scheduler/kai-scheduler"
        assert line_of(after).chart == "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"


def test_changes_within_lines() -> None:
    assert line_of("0.7.11").reservation_class == "node"
    assert line_of("0.7.12").reservation_class == "nvidia"
    assert line_of("0.9.5").helm.reservation_class == ""
    assert line_of("0.9.6").helm.reservation_class == "global.resourceReservation.runtimeClassName"
    assert line_of("0.9.6").helm.workload_class == ""
    assert line_of("0.9.7").helm.workload_class == "admission.gpuPodRuntimeClassName"
    assert [line_of(v).fake_gpu_detection for v in ("0.9.1", "0.9.2", "0.9.4", "0.12.0")] == [False, True, False, True]
    made = ("templates/kai-config.yaml", "templates/hooks/post/kai-config-deployer/configmap.yaml")
    for before, after in (("0.12.21", "0.12.22"), ("0.14.5", "0.14.6"), ("0.15.2", "0.15.3")):
        assert (line_of(before).config_template, line_of(after).config_template) == made
    assert [line_of(v).reservation_name for v in ("0.9.19", "0.9.20")] == ["node", "hash"]
    assert "batch_gang" not in line_of("0.14.0").features
    assert line_of("0.14.1").keys.min_member == "kai.scheduler/batch-min-member"


def test_queue_support_by_line() -> None:
    for line in lines().values():
        deep = release(line.version) >= release("0.13.0")
        assert line.queue_levels == (0 if deep else 2)
        assert line.unknown_queue_event is deep
        assert ("hierarchical_queues" in line.features) is deep
        assert ("silent-unknown-queue" in {defect.id for defect in line.defects}) is not deep


def test_admission_deployment_by_line() -> None:
    assert [line_of(v).admission for v in ("0.7.11", "0.7.13", "0.16.8")] == ["binder", "kai-admission", "admission"]
    for line in lines().values():
        assert line.admission in line.deployments


@pytest.mark.parametrize(
    ("defect", "has", "has_not"),
    [
        ("double-reservation", ("0.12.21", "0.13.4", "0.15.3"), ("0.12.22", "0.14.6", "0.16.0")),
        ("deleted-podgroup-written", ("0.9.20", "0.14.7", "0.16.8"), ("0.9.2", "0.17.0")),
        ("reservation-lost-on-retry", ("0.9.20", "0.14.7", "0.16.8", "0.17.0"), ("0.9.15", "0.13.4")),
        ("needs-cluster-policy", ("0.9.0", "0.10.5"), ("0.8.4", "0.12.0")),
        ("config-made-anew", ("0.9.5", "0.15.2"), ("0.9.4", "0.12.22", "0.15.3")),
    ],
)
def test_defects_have_ranges_of_releases(defect: str, has: tuple[str, ...], has_not: tuple[str, ...]) -> None:
    assert all(defect in {one.id for one in line_of(version).defects} for version in has)
    assert not any(defect in {one.id for one in line_of(version).defects} for version in has_not)


def test_defects_are_cured_after_the_release_that_has_them() -> None:
    for version in facts.releases():
        for defect in line_of(version).defects:
            fixed = defect.fixed_in
            assert not fixed or release(version) < release(fixed), (version, defect.id)
            assert defect.proof.startswith(("seen", "read")), defect.id
            assert defect.next, (version, defect.id)


def test_lines_that_need_crds_shipped_with_the_lab() -> None:
    for line in lines().values():
        assert bool(line.needs_crds) is line.name.startswith(("0.9.", "0.10"))
        for name, file in line.needs_crds.items():
            assert base_values("kai", file)["metadata"]["name"] == name
            assert "needs-cluster-policy" in {defect.id for defect in line.defects}


def test_fixed_names_are_the_same_in_all_lines() -> None:
    known = lines().values()
    same = {(line.namespace, line.reservation_namespace, line.release, line.scheduler_name) for line in known}
    assert same == {("kai-scheduler", "kai-resource-reservation", "kai-scheduler", "kai-scheduler")}


def test_values_of_the_files_have_the_right_types() -> None:
    hints = typing.get_type_hints(VersionLine)
    words = {"reservation_name": {"node", "hash"}, "reservation_class": {"", "node", "nvidia"}}
    words |= {"workload_class_pods": {"none", "gpu", "fraction"}}
    for line in lines().values():
        for name, hint in hints.items():
            value = getattr(line, name)
            assert isinstance(value, typing.get_origin(hint) or hint), (line.name, name)
            if isinstance(value, tuple | frozenset) and name != "defects":
                assert all(isinstance(word, str) for word in value), (line.name, name)
        for table in (line.keys, line.helm):
            assert all(isinstance(word, str) for word in dataclasses.astuple(table)), line.name
        assert all(getattr(line, name) in known for name, known in words.items()), line.name


def test_cluster_views_read_the_keys_of_every_line() -> None:
    for line in lines().values():
        keys = line.keys
        assert keys.gpu_groups == f"{names.GPU_GROUP_LABEL}/"
        assert keys.queue == names.QUEUE_LABEL
        assert keys.gpu_group == names.GPU_GROUP_LABEL
        assert keys.pod_group == names.POD_GROUP_ANNOTATION
        assert keys.received_type == names.RECEIVED_ANNOTATION
        assert keys.fraction == names.FRACTION_ANNOTATION
        assert keys.gpu_memory == names.MEMORY_ANNOTATION
        assert keys.reserved_gpu == names.RESERVED_GPU_ANNOTATION
        assert (line.scheduler_name, line.namespace) == (names.KAI_SCHEDULER, names.KAI_SCHEDULER)
        assert line.reservation_namespace == names.RESERVATION_APP


def test_json_has_lists_instead_of_sets() -> None:
    data = json.loads(json.dumps([to_json(line) for line in lines().values()]))
    assert data[0]["keys"]["fraction"] == "gpu-fraction"
    assert data[-1]["features"] == sorted(line_of("0.17.0").features)


def test_change_applies_from_its_release_on() -> None:
    change = {"since": "1.2.3", "base": "new", "keys": {"mps": "mps"}}
    found = source("1.2", {**OWN, "change": [change]}, EVERY)
    before, after = found.line("1.2.2"), found.line("1.2.3")
    assert (before.base, before.keys.mps, before.features) == ("", "gpu-fraction", {"gang", "topology"})
    assert (after.base, after.keys.mps, after.features) == ("new", "mps", {"gang", "segment", "topology"})
    assert found.range == "1.2.0 to 1.2.9"


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"colour": "red"}, "1.2: unknown: colour"),
        ({"keys": {"colour": "red"}}, "1.2: keys: unknown: colour"),
        ({"helm": {"colour": "red"}}, "1.2: helm: unknown: colour"),
        ({"defects": {"late": ""}}, "1.2: unknown: defects"),
        ({"crds": ["x"]}, "1.2: unknown: crds"),
        ({"change": [{"since": "1.2.1", "colour": ""}]}, "1.2: change since 1.2.1: unknown: colour"),
        ({"change": [{"since": "1.2.1", "last": ""}]}, "1.2: change since 1.2.1: unknown: last"),
        ({"change": [{"since": "1.2.1", "keys": {"colour": ""}}]}, "1.2: change since 1.2.1: keys: unknown: colour"),
    ],
)
def test_unknown_keys_are_refused(own: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        source("1.2", {**OWN, **own}, EVERY)


def test_missing_keys_are_refused() -> None:
    without = {key: value for key, value in EVERY.items() if key != "queue_levels"}
    with pytest.raises(LabError, match=r"1\.2: missing: queue_levels"):
        source("1.2", OWN, without)


def test_tables_are_merged_by_key() -> None:
    below = {"keys": {"a": "1", "b": "1"}, "by_operator": ["x"]}
    above = {"keys": {"b": "2"}, "by_operator": ["y"]}
    assert merged(below, above) == {"keys": {"a": "1", "b": "2"}, "by_operator": ["y"], "helm": {}}


def test_every_file_defines_a_line() -> None:
    assert {file.name for file in sources()} == {line.name for line in lines().values()}


@pytest.mark.parametrize(
    ("defect", "version", "cured"),
    [
        ("double-reservation", "0.9.8", "0.9.20"),
        ("double-reservation", "0.14.1", "0.14.6"),
        ("double-reservation", "0.14.6", "0.14.6"),
        ("dotted-pod-names", "0.14.1", "0.16.5"),
        ("deleted-podgroup-written", "0.16.8", "0.17.0"),
        ("over-packed-burst", "0.17.0", ""),
        ("reservation-lost-on-retry", "0.16.8", ""),
    ],
)
def test_release_without_a_defect(defect: str, version: str, cured: str) -> None:
    assert cured_in(defect, version) == cured


def test_version_is_the_most_frequent_tag() -> None:
    images = ["x/binder:v0.16.8", "x/scheduler:0.16.8-fips", "x/admission:v0.17.0", "x/other:latest", "x/none"]
    assert version_of(images) == "0.16.8"
    assert version_of(["x/other:latest"]) == version_of([]) == ""


def test_names_of_labels_and_values_come_from_the_derived_facts() -> None:
    assert [line_of(v).keys.node_pool for v in ("0.8.5", "0.9.3", "0.9.20", "0.10.0")] == [
        "",
        "kai.scheduler/nodepool",
        "kai.scheduler/nodepool",
        "kai.scheduler/node-pool",
    ]
    assert line_of("0.9.20").keys.fraction_container == ""  # the constant is there, and no code reads it
    assert line_of("0.13.4").keys.segment_size == "kai.scheduler/segment-size"
    assert line_of("0.9.2").helm.binder_flags == ""
    assert line_of("0.10.0").helm.reservation_class == "binder.runtimeClassName"
    assert line_of("0.15.3").helm.workload_class == "admission.gpuPodRuntimeClassName"
    assert line_of("0.9.20").default_queues == ()
    assert line_of("0.10.0").default_queues == ("default-parent-queue", "default-queue")


def test_topology_places_pods_where_the_plugin_is_on() -> None:
    for version in facts.releases():
        line = line_of(version)
        assert ("topology" in line.features) is ("topology" in facts.plugins(version)) is bool(line.topology_api), (
            version
        )
