"""A change of a tenant's KAI that is killed at any of its writes, and what then finishes it.

A real SIGKILL of the real command: tests/integration/test_kills.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lab.engine.step import State
from lab.steps.kai import Kai
from lab.tenants.vcluster.inner_lab import StepInTenant
from tests.support.fakes import FakeRunner
from tests.support.kai_install import RENDERED
from tests.support.tenant_kai_world import Bench, Killed, tenant_of

LEFT = (
    ("ValidatingAdmissionPolicy", "kailab-kai-is-changed", ""),
    ("ValidatingAdmissionPolicyBinding", "kailab-kai-is-changed", ""),
    ("Pod", "kailab-admission", "kai-scheduler"),
)


@pytest.fixture(autouse=True)
def images_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.steps.loaded_images.missing", lambda ctx, images: {})


def killed_benches(patch: pytest.MonkeyPatch, tmp: Path) -> Iterator[tuple[Bench, str]]:
    """A tenant whose change from 0.9.8 to 0.16.8 was killed, for each write of the change; and that write."""
    for number in range(1, 100):
        folder = tmp / str(number)
        folder.mkdir()
        patch.setenv("KAILAB_STATE", str(folder / "state"))
        bench = Bench(FakeRunner(), folder, "0.9.8")
        for _ in range(9):
            bench.world.helm("uninstall")
            bench.world.helm("template", out=RENDERED)
        bench.helm_installs("0.16.8")
        bench.kill_at(number)
        try:
            bench.change("0.16.8")
        except Killed as killed:
            bench.revived = True
            yield bench, str(killed)
        else:
            assert number > 20, number
            return


def left_in(bench: Bench) -> list[str]:
    return [name for kind, name, namespace in LEFT if bench.api.get(kind, name, namespace)]


def test_repeated_change_finishes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for bench, killed in killed_benches(monkeypatch, tmp_path):
        done = bench.change("0.16.8")
        assert (done.after, done.ok, left_in(bench)) == ("0.16.8", True, []), killed


@pytest.mark.parametrize("version", ["0.16.8", "0.9.8"])
def test_lab_up_finishes(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a lab file that has the new version, or still the old one: then it rolls back."""
    for bench, killed in killed_benches(monkeypatch, tmp_path):
        bench.helm_version = version
        step = StepInTenant(tenant_of(version), bench.world.spec, partial(Kai, stop_first=True), ())
        if step.observe(bench.world.ctx).state is not State.READY:
            step.apply(bench.world.ctx)
            step.verify(bench.world.ctx)
        assert (step.observe(bench.world.ctx).state, left_in(bench)) == (State.READY, []), killed
