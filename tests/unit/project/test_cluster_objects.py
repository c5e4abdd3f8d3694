"""The comparison of a cluster before and after a lab, which integration tests make: an error fails it."""

from __future__ import annotations

import pytest

from lab.errors import ApiFailed
from tests.support.cluster_objects import changes, objects_in
from tests.support.fake_api_server import FakeApiServer


def test_objects_that_are_made_removed_or_changed_are_named() -> None:
    api = FakeApiServer()
    api.put("Queue", "team", spec={"a": 1})
    api.put("Queue", "gone")
    before = objects_in(api.cluster)
    assert changes(before, objects_in(api.cluster)) == []
    api.change("Queue", "team", spec={"a": 2})
    api.remove("Queue", "gone")
    api.put("Namespace", "made")
    lines = [line.partition("\n")[0].partition(" ")[0] for line in changes(before, objects_in(api.cluster))]
    assert lines == ["made:", "removed:", "changed:"]


@pytest.mark.parametrize("code", [403, 404, 405])
def test_kinds_that_cannot_be_listed_are_left_out(code: int) -> None:
    api = FakeApiServer()
    api.put("Queue", "team")
    api.fail("list", "Secret", (code, "no"))
    assert len(objects_in(api.cluster)) == 1


def test_server_that_fails_is_not_an_empty_cluster() -> None:
    api = FakeApiServer()
    api.put("Queue", "team")
    api.fail("list", "Queue", *[(500, "broken")] * 10)
    with pytest.raises(ApiFailed, match="broken"):
        objects_in(api.cluster)
