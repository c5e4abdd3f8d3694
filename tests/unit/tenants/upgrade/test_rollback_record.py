from __future__ import annotations

from pathlib import Path

from lab.tenants.upgrade.preflight import with_kai_version
from lab.tenants.upgrade.rollback_record import RollbackRecord, forget, last_change, record
from tests.support.fakes import FakeRunner
from tests.support.tenant_kai_world import Bench, tenant_of


def test_what_was_before_is_remembered(runner: FakeRunner, tmp_path: Path) -> None:
    paths = Bench(runner, tmp_path, "0.16.8").world.paths
    old = tenant_of("0.9.8", kai_values={"global": {"x": 1}}, queues=({"name": "a"}, {"name": "b", "parent": "a"}))
    assert last_change(paths, "ml") is None
    record(paths, RollbackRecord(old, with_kai_version(old, "0.16.8")))
    there = last_change(paths, "ml")
    assert there is not None
    assert (there.before, there.target, there.done) == (old, old, False)
    forget(paths, "ml")
    assert last_change(paths, "ml") is None


def test_a_rollback_that_was_cut_off_goes_on() -> None:
    old, new = tenant_of("0.9.8"), tenant_of("0.16.8")
    cut = RollbackRecord(new, old, back=True)
    assert cut.target == old
    assert RollbackRecord(new, old, back=True, done=True).target == new, "done, it can be taken back itself"
