"""Objects of pods that have ended are deleted, and those of no others."""

from __future__ import annotations

from typing import Any

import pytest

from lab.tenants.removal import terminated_pods
from lab.tenants.removal.terminated_pods import delete_terminated, has_terminated

DONE, RUNS = {"terminated": {"exitCode": 0}}, {"running": {}}


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
        (pod(DONE, DONE), True),
        (pod(DONE, init=(DONE,)), True),
        (pod(DONE, RUNS), False),
        (pod(DONE, init=(RUNS,)), False),
        (pod({"waiting": {"reason": "ContainerCreating"}}), False),
        (pod(DONE, deleting=False), False),
        (pod(), False),
    ],
)
def test_only_what_is_deleted_and_has_terminated(found: dict[str, Any], wanted: bool) -> None:
    assert has_terminated(found) is wanted


class Host:
    """Two pods, one of which has ended."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, int]] = []
        self.pods = [pod(DONE), {**pod(RUNS), "metadata": {"name": "b", "deletionTimestamp": "now"}}]

    def list(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        return self.pods

    def delete(self, kind: str, name: str, namespace: str, grace: int) -> None:
        self.deleted.append((name, grace))


def test_it_is_looked_at_while_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminated_pods, "_FIRST_CHECK", 0.01)
    monkeypatch.setattr(terminated_pods, "_INTERVAL", 60.0)
    host = Host()
    with delete_terminated(host, "vcluster-a"):  # type: ignore[arg-type]
        while not host.deleted:
            pass
    assert host.deleted == [("a", 0)]
