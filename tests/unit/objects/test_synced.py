"""Owner and virtual name of objects on the host."""

from __future__ import annotations

from lab.objects.synced import SyncedObject, selector

KEY = "vcluster.loft.sh"


def test_synced_object_is_identified_by_its_annotations() -> None:
    labels = {f"{KEY}/managed-by": "ml", f"{KEY}/namespace": "team"}
    annotations = {f"{KEY}/object-name": "cuda", f"{KEY}/object-namespace": "team", f"{KEY}/object-uid": "inside"}
    metadata = {"name": "cuda-x-team-x-ml", "namespace": "vcluster-ml", "uid": "host"}
    found = SyncedObject.of({"metadata": {**metadata, "labels": labels, "annotations": annotations}})
    assert found == SyncedObject("ml", "team", "cuda", "inside")
    assert found.title == "team/cuda"


def test_other_objects_keep_their_own_names() -> None:
    annotations = {f"{KEY}/object-name": "claimed"}
    metadata = {"name": "web", "namespace": "default", "uid": "1", "annotations": annotations}
    assert SyncedObject.of({"metadata": metadata}) == SyncedObject("", "default", "web", "1")


def test_selector_matches_the_managed_by_label() -> None:
    assert selector("ml") == f"{KEY}/managed-by=ml"
    assert selector("ml", "team") == f"{KEY}/managed-by=ml,{KEY}/namespace=team"
