from __future__ import annotations

from typing import Any

import pytest

from lab.config import KaiSpec, QueueSpec
from lab.errors import LabError
from lab.paths import LabPaths
from lab.session.kai_changes import RollbackRecord, WantedKai, forget, last_change, record


def wanted(version: str, **more: Any) -> WantedKai:
    return WantedKai(KaiSpec(version=version, **more), (QueueSpec(name="a"), QueueSpec(name="b", parent="a")))


@pytest.mark.parametrize(("tenant", "other"), [("ml", ""), ("", "ml")])
def test_record_is_saved_until_forgotten(tenant: str, other: str) -> None:
    paths, old, new = LabPaths("demo"), wanted("0.9.8", values={"global": {"x": 1}}), wanted("0.16.8")
    assert last_change(paths, tenant) is None
    record(paths, tenant, RollbackRecord(old, new))
    saved = last_change(paths, tenant)
    assert saved == RollbackRecord(old, new)
    assert saved.target == old
    assert last_change(paths, other) is None
    forget(paths, tenant)
    assert last_change(paths, tenant) is None


def test_target_of_interrupted_and_finished_rollbacks() -> None:
    old, new = wanted("0.9.8"), wanted("0.16.8")
    interrupted = RollbackRecord(new, old, back=True)
    assert interrupted.target == old
    assert RollbackRecord(new, old, back=True, done=True).target == new, "a finished rollback can be rolled back"


@pytest.mark.parametrize("text", ["", "{}", '{"before": {"kai": {}, "queues": 1}}'])
def test_damaged_record_is_named(text: str) -> None:
    paths = LabPaths("demo")
    paths.root.mkdir(parents=True)
    (paths.root / "host.kai.json").write_text(text)
    with pytest.raises(LabError, match=r"host\.kai\.json cannot be read") as found:
        last_change(paths, "")
    assert "--to" in found.value.fix
