"""Valid combinations of values, and warnings. config_cases/ has the invalid ones."""

from __future__ import annotations

import pytest

from lab.config import LabSpec, load_profile, profile_names
from lab.kai import release


def lab(**sections: object) -> LabSpec:
    return LabSpec.model_validate(sections)


def existing(**more: object) -> dict[str, object]:
    """Sections of a lab file of an existing cluster."""
    cluster = {"provider": "existing", "kubeconfig": "/k", "context": "c"}
    return {"cluster": cluster, "budget": {"gpus": 4}, **more}


TWO_LEVELS = [{"name": "default"}, {"name": "test", "parent": "default"}]


@pytest.mark.parametrize(
    "sections",
    [
        {"kai": {"version": "0.12.23"}, "queues": TWO_LEVELS},
        {"kai": {"version": "0.13.0"}, "queues": [{"name": "alone"}]},
        {"kai": {"version": "0.13.4"}, "queues": [*TWO_LEVELS, {"name": "third", "parent": "test"}]},
        {"kai": {"version": "0.9.4"}, "queues": TWO_LEVELS},
        {"kai": {"version": "0.9.3"}, "queues": TWO_LEVELS},
        {"tenants": [{"name": "a", "mode": "own-kai", "kaiVersion": "0.7.11"}]},
        {"tenants": [{"name": "a", "vcluster": "0.35.3"}, {"name": "b", "vcluster": "0.36.0-rc.1"}]},
        {"scheduler": "default", "tenants": [{"name": "a", "mode": "default"}]},
        {"scheduler": "default", "tenants": [{"name": "a", "mode": "own-kai", "kaiVersion": "0.16.8"}]},
        {"scheduler": "default", "kai": {"version": "0.7.11"}, "queues": [{"name": "alone"}]},
        {"gpu": {"mode": "none", "perNode": 4}},
        {"gpu": {"mode": "none", "model": "Nobody knows"}},
        {"gpu": {"mode": "nvidia", "model": "Nobody knows"}},
        {"gpu": {"perNode": 0, "model": "Nobody knows"}},
        {"gpu": {"model": "Nobody knows", "memoryMiB": 1000}},
        {"gpu": {"model": "t4", "pools": [{"name": "a", "workers": 2}]}},
        {"gpu": {"pools": [{"name": "a", "model": "Other", "perNode": 0}, {"name": "b", "memoryMiB": 1000}]}},
        {"gpu": {"mode": "nvidia", "pools": [{"name": "a", "workers": 2, "devices": 2}]}},
        {"gpu": {"mode": "nvidia", "pools": [{"name": "a", "devices": [0]}, {"name": "b", "devices": [1]}]}},
        {"cluster": {"workers": 1}, "gpu": {"mode": "nvidia", "devices": [0, 1]}},
        {"gpu": {"mode": "simulated", "devices": [0, 1]}},
        {"gpu": {"pools": [{"name": "a", "workers": 2, "labels": {"team": "x", "node.kubernetes.io/zone": ""}}]}},
        # the version of an existing cluster is not in the file
        existing(kai={"version": "0.9.3"}),
        existing(kai={"manage": "adopt"}, gpu={"mode": "present", "runtimeClass": "nvidia"}),
        existing(kai={"manage": "none"}, scheduler="default"),
        existing(budget={"gpus": 0.5}),
        existing(budget={}, gpu={"mode": "none"}),
        existing(gpu={"mode": "simulated", "nodes": ["a", "b.example"], "image": "r/kailab:1"}),
        existing(gpu={"mode": "simulated", "nodes": ["a"]}, kai={"gpuSharing": False}),
        existing(gpu={"mode": "simulated", "nodes": ["a"]}, scheduler="default"),
        {"kai": {"manage": "none"}},
    ],
)
def test_combination_is_valid(sections: dict[str, object]) -> None:
    assert lab(**sections).name == "demo"


def test_releases_are_ordered() -> None:
    versions = ["0.7.11", "0.9.3", "0.9.4", "0.9.20", "0.12.23", "0.16.8-rc.1", "0.16.8", "1.0.0"]
    assert sorted({*versions}, key=release) == versions


@pytest.mark.parametrize("profile", profile_names())
def test_profiles_have_no_warnings(profile: str) -> None:
    assert load_profile(profile, (), {}).warnings() == ()


@pytest.mark.parametrize(
    ("sections", "warnings"),
    [
        (
            {"cluster": {"kubernetes": "1.35.0"}},
            ("cluster.kubernetes: 1.35.0 does not run on machines with cgroup v1 (1.34 does)",),
        ),
        (
            {"cluster": {"workers": 3}, "gpu": {"pools": [{"name": "a"}]}},
            ("gpu.pools: 2 workers of 3 in no pool: without GPUs",),
        ),
        (
            {"gpu": {"mode": "none", "pools": [{"name": "a"}]}},
            ("gpu.pools: have no effect, as gpu.mode is 'none' (1 given)",),
        ),
        (
            {"gpu": {"mode": "nvidia", "perNode": 2, "pools": [{"name": "a", "workers": 2, "model": "T4"}]}},
            (
                "gpu.perNode: has no effect, as gpu.mode is 'nvidia' (use devices)",
                "gpu.pools.a.model: has no effect, as gpu.mode is 'nvidia' (use devices)",
            ),
        ),
        (
            {"gpu": {"mode": "simulated", "devices": 1}},
            ("gpu.devices: has no effect, as gpu.mode is 'simulated' (use perNode)",),
        ),
        (
            {"scheduler": "default", "queues": TWO_LEVELS},
            ("queues: have no effect, as scheduler is 'default' (2 given)",),
        ),
        (
            {"kai": {"version": "0.7.11"}, "queues": TWO_LEVELS},
            (
                (
                    "kai.version: with KAI 0.7.11, reservation pods get the nodes' default runtime and find no GPU, so"
                    " that no fraction starts; 0.7.12 and newer name NVIDIA's runtime"
                ),
            ),
        ),
        ({"kai": {"version": "0.7.11", "gpuSharing": False}, "queues": TWO_LEVELS}, ()),
        ({"kai": {"version": "0.9.8"}}, ("queues: none given, and KAI 0.9.8 creates none: its pods would never run",)),
        (
            {
                "queues": [
                    {"name": "org", "gpu": {"quota": 4}, "cpu": {"quota": 1000}, "memory": {"quota": 5}},
                    {"name": "a", "parent": "org", "gpu": {"quota": 3}, "memory": {"quota": 2.5}},
                    {"name": "b", "parent": "org", "gpu": {"quota": 1.5}, "memory": {"quota": 2.5}},
                    {"name": "leaf", "gpu": {"quota": 1}},
                ]
            },
            (
                "queues: 'org' has a gpu quota of 4, its children together 4.5",
                "queues: 'org' has a cpu quota of 1000, its children together unlimited",
            ),
        ),
        (existing(kai={"manage": "adopt", "version": "0.13.4"}), ()),
        # the budget's queue has no quota in a cluster of others
        (existing(name="org", queues=[{"name": "team", "gpu": {"quota": 2}}]), ()),
        (
            existing(gpu={"perNode": 4, "devices": 1}),
            tuple(
                f"gpu.{key}: has no effect: the GPUs are the cluster's (provider 'existing')"
                for key in ("perNode", "devices")
            ),
        ),
        (
            existing(gpu={"mode": "simulated", "nodes": ["a"], "image": "r/kailab:1", "perNode": 4, "devices": 1}),
            ("gpu.devices: has no effect: the GPUs are simulated (provider 'existing')",),
        ),
    ],
)
def test_combination_has_warnings(sections: dict[str, object], warnings: tuple[str, ...]) -> None:
    assert lab(**sections).warnings() == warnings
