"""Whose an object of the host is, and under which name."""

from __future__ import annotations

from lab.objects.synced import SyncedObject, selector

KEY = "vcluster.loft.sh"


def test_a_synced_object_is_known_by_its_annotations() -> None:
    labels = {f"{KEY}/managed-by": "ml", f"{KEY}/namespace": "team"}
    notes = {f"{KEY}/object-name": "cuda", f"{KEY}/object-namespace": "team", f"{KEY}/object-uid": "inside"}
    about = {"name": "cuda-x-team-x-ml", "namespace": "vcluster-ml", "uid": "host"}
    found = SyncedObject.of({"metadata": {**about, "labels": labels, "annotations": notes}})
    assert found == SyncedObject("ml", "team", "cuda", "inside")
    assert found.title == "team/cuda"


def test_any_other_object_is_itself() -> None:
    notes = {f"{KEY}/object-name": "claimed"}
    about = {"name": "web", "namespace": "default", "uid": "1", "annotations": notes}
    assert SyncedObject.of({"metadata": about}) == SyncedObject("", "default", "web", "1")


def test_label_selectors_go_by_the_label() -> None:
    assert selector("ml") == f"{KEY}/managed-by=ml"
    assert selector("ml", "team") == f"{KEY}/managed-by=ml,{KEY}/namespace=team"
