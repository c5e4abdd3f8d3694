from __future__ import annotations

from pathlib import Path

from lab.tenants.upgrade.preflight import with_kai_version
from lab.tenants.upgrade.rollback_record import RollbackRecord, forget, last_change, record
from tests.support.fakes import FakeRunner
from tests.support.tenant_kai_world import Bench, tenant_of


def test_record_is_saved_until_forgotten(runner: FakeRunner, tmp_path: Path) -> None:
    paths = Bench(runner, tmp_path, "0.16.8").world.paths
    old = tenant_of("0.9.8", kai_values={"global": {"x": 1}}, queues=({"name": "a"}, {"name": "b", "parent": "a"}))
    assert last_change(paths, "ml") is None
    record(paths, RollbackRecord(old, with_kai_version(old, "0.16.8")))
    saved = last_change(paths, "ml")
    assert saved is not None
    assert (saved.before, saved.target, saved.done) == (old, old, False)
    forget(paths, "ml")
    assert last_change(paths, "ml") is None


def test_target_of_interrupted_and_finished_rollbacks() -> None:
    old, new = tenant_of("0.9.8"), tenant_of("0.16.8")
    interrupted = RollbackRecord(new, old, back=True)
    assert interrupted.target == old
    assert RollbackRecord(new, old, back=True, done=True).target == new, "a finished rollback can be rolled back"
