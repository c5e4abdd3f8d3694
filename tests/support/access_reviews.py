"""Answers to access reviews: what the user of a FakeApiServer may do, and its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.kube.access_review import Permission
from tests.support.api_requests import Call
from tests.support.fake_api_server import FakeApiServer


def permit(api: FakeApiServer, allowed: Callable[[Permission], bool], user: str = "jane") -> list[Permission]:
    """Answer access reviews by ``allowed``; returns the list to which each question is added."""
    asked: list[Permission] = []

    def review(call: Call) -> dict[str, Any]:
        spec = call.body["spec"]
        if "nonResourceAttributes" in spec:
            one = Permission(spec["nonResourceAttributes"]["verb"], "", spec["nonResourceAttributes"]["path"])
        else:
            of = spec["resourceAttributes"]
            resource = "/".join(filter(None, (of["resource"], of["subresource"])))
            one = Permission(of["verb"], of["group"], resource, of["namespace"], of["name"])
        asked.append(one)
        return {**call.body, "status": {"allowed": allowed(one)}}

    api.react("create", "SelfSubjectAccessReview", review)
    api.react("create", "SelfSubjectReview", lambda _: {"status": {"userInfo": {"username": user}}})
    return asked
