"""Resolution of a lab file on a machine with GPUs: no two nodes or labs get the same GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.config import LabSpec
from lab.engine.events import Bus
from lab.engine.journal import Journal
from lab.errors import HostNotReady, SpecError
from lab.gpu.nvidia import resolve as real_choice
from lab.gpu.nvidia.claims import record, recorded, recorded_strategy, share_out, taken_by_others
from lab.gpu.nvidia.resolve import claim, resolve_here, resolve_real
from lab.gpu.pools import pools_by_node
from lab.host.nvidia.discovery import NvidiaFacts
from lab.host.nvidia.toolkit import Toolkit
from lab.host.nvml import Nvml
from lab.paths import LabPaths
from lab.session.context import LabContext
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner
from tests.support.nvidia_world import DOCKER, TOOLKIT, VERSION, facts, gpu, uuid

WORKERS = ("kailab-demo-worker", "kailab-demo-worker2")


def lab(workers: int = 2, name: str = "demo", **gpu_section: Any) -> LabSpec:
    return LabSpec.model_validate(
        {"name": name, "cluster": {"workers": workers}, "gpu": {"mode": "nvidia", **gpu_section}}
    )


def resolve(spec: LabSpec, machine: NvidiaFacts | None = None, **taken: str) -> tuple[LabSpec, tuple[str, ...]]:
    return resolve_real(spec, machine or facts(), {}, "", {uuid(int(key[1:])): owner for key, owner in taken.items()})


@pytest.mark.parametrize("mode", ["none", "simulated"])
def test_other_modes_are_unchanged(mode: str) -> None:
    spec = lab(mode=mode)
    assert resolve(spec) == (spec, ())


def test_auto_becomes_nvidia_with_a_reason_where_that_works() -> None:
    spec, messages = resolve(lab(mode="auto"))
    assert (spec.gpu.mode, spec.gpu.strategy, spec.gpu.pools) == ("nvidia", "volume-mount", ())
    assert len(messages) == 1
    assert "passed to nodes by volume-mount" in messages[0]


def test_auto_becomes_simulated_without_gpus() -> None:
    spec, messages = resolve(lab(mode="auto"), facts(nvml=Nvml(why="no driver")))
    assert spec.gpu.mode == "simulated"
    assert messages == ()


def test_auto_explains_simulated_gpus_on_a_machine_with_gpus() -> None:
    spec, messages = resolve(lab(mode="auto", strategy="cdi"), facts(toolkit=Toolkit()))
    assert spec.gpu.mode == "simulated"
    assert "GPUs are simulated" in messages[0]
    spec, messages = resolve(lab(mode="auto"), a0="other", a1="other", a2="other", a3="other")
    assert spec.gpu.mode == "simulated"
    assert messages == ("GPUs are simulated: lab other uses this machine's",)


def test_nvidia_is_never_replaced() -> None:
    with pytest.raises(HostNotReady, match="no driver"):
        resolve(lab(), facts(nvml=Nvml(why="no driver")))
    with pytest.raises(SpecError, match="no GPU of this machine is free") as caught:
        resolve(lab(), a0="other", a1="other", a2="other", a3="other")
    assert len(caught.value.evidence) == 4


def test_excess_workers_get_no_gpus() -> None:
    spec, messages = resolve(lab(workers=3), facts(nvml=Nvml(VERSION, "13.0", (gpu(0), gpu(1)))))
    assert list(pools_by_node(spec)) == list(WORKERS)
    assert messages == ("only 2 of 3 workers get GPUs: this machine has no more",)


def test_pool_without_gpus_is_refused() -> None:
    pools = [{"name": "a", "devices": 4}, {"name": "b", "devices": "all"}]
    with pytest.raises(SpecError, match="no GPU is left for worker2"):
        resolve(lab(pools=pools))


def test_unusable_gpus_are_named() -> None:
    machine = facts(nvml=Nvml(VERSION, "13.0", (gpu(0, 2), gpu(1, 0), gpu(2, 1), gpu(3, mig=True))))
    spec, messages = resolve(lab(), machine, a0="other")
    assert [line.split()[1] for line in messages] == ["3", "0"]
    assert share_out(spec, machine, {uuid(0): "other"}) == {WORKERS[0]: (gpu(1, 0),), WORKERS[1]: (gpu(2, 1),)}


def test_gpu_used_by_another_lab_is_refused() -> None:
    spec = lab(workers=1, devices=[0])
    with pytest.raises(SpecError, match="no GPU 0") as caught:
        share_out(spec, facts(), {uuid(0): "other"})
    assert f"GPU 0 {uuid(0)}: used by lab other" in caught.value.evidence


def test_existing_claims_are_reused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    record(journal, "cluster", {WORKERS[0]: (gpu(0, 2), gpu(1, 0))}, "explicit-mounts")
    assert recorded(journal) == {WORKERS[0]: (gpu(0, 2), gpu(1, 0))}
    assert recorded_strategy(journal) == "explicit-mounts"
    spec, _ = resolve_here(lab(mode="auto"), facts(), journal)
    assert (spec.gpu.mode, spec.gpu.strategy) == ("nvidia", "explicit-mounts")
    assert list(pools_by_node(spec)) == [WORKERS[0]]
    # claims are never replaced by simulated GPUs
    with pytest.raises(HostNotReady):
        resolve_here(lab(mode="auto"), facts(nvml=Nvml(why="no driver")), journal)


def test_new_claim_replaces_the_old_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    record(journal, "cluster", {WORKERS[0]: (gpu(0, 2), gpu(1, 0))}, "cdi")
    record(journal, "cluster", {WORKERS[1]: (gpu(1, 0),)}, "cdi")
    assert recorded(journal) == {WORKERS[1]: (gpu(1, 0),)}


def test_other_labs_claims_are_read_from_their_journals() -> None:
    for name, index in (("one", 0), ("two", 1)):
        record(Journal(LabPaths(name).journal), "cluster", {f"kailab-{name}-worker": (gpu(index),)}, "cdi")
    assert taken_by_others("two") == {uuid(0): "one"}
    assert taken_by_others("three") == {uuid(0): "one", uuid(1): "two"}


def context(spec: LabSpec, runner: FakeRunner) -> LabContext:
    paths = LabPaths(spec.name)
    return LabContext(
        "cluster",
        spec,
        paths,
        runner,
        Journal(paths.journal),
        Bus(),
        None,
        ContainerEngine(runner),  # type: ignore[arg-type]
        lambda _: None,  # type: ignore[arg-type,return-value]
    )


PREPARED = facts(
    default_runtime="nvidia", engine=replace(DOCKER, default_runtime="nvidia"), toolkit=replace(TOOLKIT, mounts=True)
)


def test_two_labs_claim_different_gpus(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_choice, "discover_now", lambda run, engine: PREPARED)
    first = claim(context(lab(strategy="volume-mount", devices=1), runner), "cluster")
    second = claim(context(lab(name="other", strategy="volume-mount"), runner), "cluster")
    paths = [mount["containerPath"] for mounts in (*first.values(), *second.values()) for mount in mounts]
    assert sorted(path.rpartition("/")[2] for path in paths) == [uuid(number) for number in range(4)]
    assert set(first) == set(WORKERS)
    assert set(second) == {"kailab-other-worker", "kailab-other-worker2"}
    # an unfinished creation keeps its claims
    assert claim(context(lab(strategy="volume-mount", devices=1), runner), "cluster") == first


def test_claim_of_a_missing_gpu_is_replaced(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context(lab(workers=1, strategy="volume-mount"), runner)
    record(ctx.journal, "cluster", {WORKERS[0]: (gpu(8),)}, "volume-mount")
    monkeypatch.setattr(real_choice, "discover_now", lambda run, engine: PREPARED)
    assert len(claim(ctx, "cluster")[WORKERS[0]]) == 4
    assert len(recorded(ctx.journal)[WORKERS[0]]) == 4


def test_claim_on_an_unprepared_machine_is_refused(runner: FakeRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_choice, "discover_now", lambda run, engine: facts())
    ctx = context(lab(strategy="volume-mount"), runner)
    with pytest.raises(HostNotReady, match="not prepared") as caught:
        claim(ctx, "cluster")
    assert caught.value.evidence == ("needed: nvidia-runtime",)
    assert ctx.journal.owned() == ()
