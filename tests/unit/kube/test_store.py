"""The stores of watched objects: indexes, kinds in doubt, cached views."""

from __future__ import annotations

from typing import Any

from lab.kube.informers import Cache, InformerEvent
from lab.kube.store import Store
from tests.support.kube_fake import pod

Json = dict[str, Any]


def phase_of(obj: Json) -> str:
    return str(obj["status"]["phase"])


def store() -> Store[Json]:
    return Store(lambda obj: obj, {"phase": lambda obj: (phase_of(obj),)})


def names(items: Any) -> list[str]:
    return [obj["metadata"]["name"] for obj in items]


def test_update_returns_the_item_before_and_after() -> None:
    items, pending, running = store(), pod("a"), pod("a", "Running")
    assert items.update(("ADDED", pending)) == (None, pending)
    assert items.update(("MODIFIED", running)) == (pending, running)
    assert items.update(("DELETED", running)) == (running, None)
    assert items.update(("DELETED", running)) == (None, None)
    assert list(items) == []


def test_index_follows_updates() -> None:
    items = store()
    for obj in (pod("a"), pod("b"), pod("a", "Running")):
        items.update(("MODIFIED", obj))
    assert names(items.by_index("phase", "Pending").values()) == ["b"]
    assert names(items.by_index("phase", "Running").values()) == ["a"]
    items.update(("DELETED", pod("a", "Running")))
    assert names(items.by_index("phase", "Running").values()) == []
    assert names(items.by_index("phase", "Failed").values()) == []


def test_changed_object_keeps_its_position() -> None:
    items = store()
    for obj in (pod("a"), pod("b"), pod("a", "Running")):
        items.update(("MODIFIED", obj))
    assert names(items) == ["a", "b"]


def test_objects_are_identified_by_uid() -> None:
    items = store()
    items.update(("ADDED", pod("a", uid="1")))
    items.update(("ADDED", pod("a", uid="2")))
    items.update(("DELETED", pod("a", uid="1")))
    assert [obj["metadata"]["uid"] for obj in items] == ["2"]


def cache(*events: InformerEvent) -> Cache:
    items = Cache(("Pod", "Queue"), lambda obj: {**obj, "seen": True})
    for event in events:
        items.update(event)
    return items


LISTED = InformerEvent("lab", "Pod", (("ADDED", pod("a")),), listed=True)


def test_kind_is_in_doubt_until_listed_and_while_its_watch_is_broken() -> None:
    assert cache().doubt("Pod") == "has not been read yet"
    assert cache(LISTED).doubt("Pod") == ""
    broken = cache(LISTED, InformerEvent("lab", "Pod", trouble="cut"))
    assert broken.doubt("Pod") == "cut"
    assert names(broken.objects("Pod")) == ["a"], "the last known objects"
    broken.update(InformerEvent("lab", "Pod"))
    assert broken.doubt("Pod") == ""
    assert cache(InformerEvent("lab", "Queue", absent=True)).doubt("Queue") == "the server does not have it"
    assert cache(InformerEvent("lab", "Queue", refused="forbidden")).doubt("Queue") == "forbidden"


def test_cache_is_synced_once_every_kind_is_listed_or_absent() -> None:
    assert not cache(LISTED).synced
    assert not cache(LISTED, InformerEvent("lab", "Queue", trouble="cut")).synced
    assert cache(LISTED, InformerEvent("lab", "Queue", absent=True)).synced


def test_cache_keeps_views_of_objects() -> None:
    items = cache()
    ((change, obj),) = items.update(LISTED)
    assert (change, obj["seen"]) == ("ADDED", True)
    assert items.objects("Pod") == (obj,)
    items.update(InformerEvent("lab", "Pod", (("DELETED", pod("a")),)))
    assert items.objects("Pod") == ()


def test_values_without_items_leave_an_index() -> None:
    pods = store()
    pods.update(("ADDED", pod("a")))
    pods.update(("DELETED", pod("a")))
    assert pods._indexes == {"phase": {}}
