"""``kailab plan``: its documents."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from lab.cli import plan
from lab.cli.app import app
from lab.errors import Unavailable


class Lacking:
    plan = SimpleNamespace(missing=("image x",))
    JSON = "missing=plan.missing"


def test_json_of_a_plan_that_lacks_items_is_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "plan_lab", lambda *_: Lacking())
    done = CliRunner().invoke(app, ["plan", "--profile", "minimal", "--json"])
    assert json.loads(done.stdout) == {"schemaVersion": 1, "missing": ["image x"]}
    assert done.exit_code == Unavailable.exit_code
