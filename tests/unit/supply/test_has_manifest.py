"""A registry is asked for an image without a container engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3  # noqa: TID251 - the errors of lab.tools.http

from lab.supply.registry import has_manifest
from lab.tools import http

CHALLENGE = 'Bearer realm="https://auth.example/token",service="r",scope="repository:team/app:pull"'


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that are asked of a registry which wants its anonymous token, and gives ``secret`` to nobody."""
    found: list[str] = []

    def get(url: str, timeout: float, env: Mapping[str, str], more: Mapping[str, str] = {}) -> Any:
        found.append(url)
        if "down.example" in url:
            raise urllib3.exceptions.HTTPError("no route to host")
        if url.startswith("https://auth.example/token?"):
            return SimpleNamespace(status=200, headers={}, read=lambda: b'{"token": "anonymous"}')
        if more.get("Authorization") != "Bearer anonymous" or "secret" in url:
            return SimpleNamespace(status=401, headers={"WWW-Authenticate": CHALLENGE}, read=lambda: b"")
        return SimpleNamespace(status=200 if url.endswith("/manifests/1") else 404, headers={}, read=lambda: b"")

    monkeypatch.setattr(http, "get", get)
    return found


@pytest.mark.parametrize(("image", "there"), [("team/app:1", True), ("team/app:2", False), ("secret/app:1", None)])
def test_registry_says(asked: list[str], image: str, there: bool | None) -> None:
    assert has_manifest(f"registry.example/{image}") is there
    assert asked[1] == "https://auth.example/token?service=r&scope=repository%3Ateam%2Fapp%3Apull"


def test_digest_takes_the_place_of_a_tag(asked: list[str]) -> None:
    has_manifest("registry.example/team/app@sha256:0a")
    assert asked[0] == "https://registry.example/v2/team/app/manifests/sha256:0a"


def test_registry_that_does_not_answer_says_nothing(asked: list[str]) -> None:
    assert has_manifest("down.example/team/app:1") is None
