"""Deletion of pods whose containers have terminated."""

from __future__ import annotations

from typing import Any

import pytest

from lab.tenants.removal import terminated_pods
from lab.tenants.removal.terminated_pods import delete_terminated, has_terminated

TERMINATED, RUNNING = {"terminated": {"exitCode": 0}}, {"running": {}}


def pod(*states: dict[str, Any], deleting: bool = True, init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "metadata": {"name": "a", **({"deletionTimestamp": "now"} if deleting else {})},
        "status": {
            "containerStatuses": [{"state": state} for state in states],
            "initContainerStatuses": [{"state": state} for state in init],
        },
    }


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (pod(TERMINATED, TERMINATED), True),
        (pod(TERMINATED, init=(TERMINATED,)), True),
        (pod(TERMINATED, RUNNING), False),
        (pod(TERMINATED, init=(RUNNING,)), False),
        (pod({"waiting": {"reason": "ContainerCreating"}}), False),
        (pod(TERMINATED, deleting=False), False),
        (pod(), False),
    ],
)
def test_deleted_pod_has_terminated_once_all_containers_have(found: dict[str, Any], wanted: bool) -> None:
    assert has_terminated(found) is wanted


class Host:
    """Two pods being deleted, one of them terminated."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, int]] = []
        self.pods = [pod(TERMINATED), {**pod(RUNNING), "metadata": {"name": "b", "deletionTimestamp": "now"}}]

    def list(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        return self.pods

    def delete(self, kind: str, name: str, namespace: str, grace: int) -> None:
        self.deleted.append((name, grace))


def test_terminated_pods_are_deleted_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminated_pods, "_FIRST_CHECK", 0.01)
    monkeypatch.setattr(terminated_pods, "_INTERVAL", 60.0)
    host = Host()
    with delete_terminated(host, "vcluster-a"):  # type: ignore[arg-type]
        while not host.deleted:
            pass
    assert host.deleted == [("a", 0)]
