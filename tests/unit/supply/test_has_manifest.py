"""A registry is asked for an image without a container engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3  # noqa: TID251 - the errors of lab.tools.http

from lab.supply.registry import has_manifest
from lab.tools import http

JANE = "Basic amFuZTpzM2NyZXQ="
LOGINS = {"registry.example": "jane:s3cret", "basic.example": "jane:s3cret"}
CHALLENGE = 'Bearer realm="https://auth.example/token",service="r",scope="repository:team/app:pull"'


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that are asked of a registry which wants its anonymous token, and gives ``secret`` to nobody."""
    found: list[str] = []

    def get(url: str, timeout: float, env: Mapping[str, str], more: Mapping[str, str] = {}) -> Any:
        found.append(url)
        if "down.example" in url:
            raise urllib3.exceptions.HTTPError("no route to host")
        known = more.get("Authorization") == JANE
        if url.startswith("https://auth.example/token?"):
            token = b'{"token": "janes"}' if known else b'{"token": "anonymous"}'
            return SimpleNamespace(status=200, headers={}, read=lambda: token)
        if "basic.example" in url:
            challenge = {"WWW-Authenticate": 'Basic realm="r"'}
            return SimpleNamespace(status=200 if known else 401, headers=challenge, read=lambda: b"")
        if more.get("Authorization") == "Bearer janes":
            return SimpleNamespace(status=404 if url.endswith("/2") else 200, headers={}, read=lambda: b"")
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


@pytest.mark.parametrize(
    ("image", "there"),
    [("registry.example/secret/app:1", True), ("registry.example/secret/app:2", False), ("basic.example/app:1", True)],
)
def test_login_of_a_pull_secret_opens_a_private_registry(asked: list[str], image: str, there: bool) -> None:
    assert has_manifest(image) is None
    assert has_manifest(image, LOGINS) is there


def test_login_goes_to_its_own_host_only(asked: list[str]) -> None:
    assert has_manifest("basic.example/app:1", {"registry.example": "jane:s3cret"}) is None
