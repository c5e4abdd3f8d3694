"""``kailab plan``: its documents."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from lab.cli import plan
from lab.cli.app import app
from lab.errors import Unavailable


def test_json_of_a_plan_that_lacks_items_is_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    report = SimpleNamespace(plan=SimpleNamespace(missing=("image x",)), as_json=lambda: {"missing": ["image x"]})
    monkeypatch.setattr(plan, "plan_lab", lambda *_: report)
    done = CliRunner().invoke(app, ["plan", "--profile", "minimal", "--json"])
    assert json.loads(done.stdout) == {"schemaVersion": 1, "missing": ["image x"]}
    assert done.exit_code == Unavailable.exit_code
