"""``kailab init``: the file, what it prints, and which options go together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lab.cli import init
from lab.config import load_spec, schema
from lab.errors import SpecError
from tests.support.existing_cluster import existing_cluster, kubeconfig


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a kubeconfig, whose contexts lead to a cluster of others."""
    monkeypatch.chdir(tmp_path)
    kubeconfig(tmp_path / "config", "farm", "other")
    api = existing_cluster()
    monkeypatch.setattr(init, "existing_cluster", lambda file, context: api.cluster)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(init.app, list(words))


def refusal(*words: str) -> SpecError:
    error = run(*words).exception
    assert isinstance(error, SpecError)
    return error


def test_a_profile_with_another_name(here: Path) -> None:
    done = run("--profile", "minimal", "--name", "mine", "--out", "small.yaml")
    assert done.stdout == "wrote small.yaml; next: kailab plan -f small.yaml\n"
    assert load_spec(here / "small.yaml", (), {}).name == "mine"


def test_editors_find_the_schema_beside_the_file(here: Path) -> None:
    run("--out", "small.yaml")
    assert (here / "small.yaml").read_text().startswith("# yaml-language-server: $schema=lab.schema.json\n")
    assert json.loads((here / "lab.schema.json").read_text()) == schema()


@pytest.mark.parametrize(("content", "kept"), [('{"$id": "urn:kailab:lab-file"}', False), ("of others", True)])
def test_schema_of_others_stays_and_an_older_one_is_renewed(here: Path, content: str, kept: bool) -> None:
    (here / "lab.schema.json").write_text(content)
    assert run().exit_code == 0
    assert ((here / "lab.schema.json").read_text() == content) == kept


def test_a_cluster_that_exists_is_shown_and_written(here: Path) -> None:
    done = run("--existing", "--kubeconfig", "config", "--context", "farm", "--name", "mine")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Cluster of context ")
    assert done.stdout.endswith("wrote lab.yaml; next: kailab plan -f lab.yaml\n")
    spec = load_spec(here / "lab.yaml", (), {})
    assert (spec.name, spec.cluster.kubeconfig) == ("mine", here / "config")


def test_json_is_the_inventory_and_writes_nothing(here: Path) -> None:
    done = run("--existing", "--kubeconfig", "config", "--context", "farm", "--json")
    data = json.loads(done.stdout)
    assert (data["schemaVersion"], data["kai"]["version"], data["gpus"]["nvidia.com/gpu"]) == (1, "0.16.8", 8)
    assert data["queues"][0]["children"][0]["name"] == "team-a"
    assert not (here / "lab.yaml").exists()


def test_an_existing_file_is_kept(here: Path) -> None:
    (here / "lab.yaml").write_text("mine")
    assert "lab.yaml already exists" in refusal("--existing", "--kubeconfig", "config", "--context", "farm").what
    assert (here / "lab.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--existing",), "--existing needs --context"),
        (("--existing", "--context", "farm", "--profile", "demo"), "mutually exclusive"),
        (("--context", "farm"), "are for a cluster that exists"),
        (("--json",), "are for a cluster that exists"),
    ],
)
def test_options_that_do_not_go_together(here: Path, words: tuple[str, ...], what: str) -> None:
    assert what in refusal(*words).what
    assert not (here / "lab.yaml").exists()
