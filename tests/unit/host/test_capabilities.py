"""Capabilities, and the OCI runtime wrapper that drops those the machine lacks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab.host.capabilities import NAMES, bounding, missing
from lab.host.runtime import source
from lab.tools.process import HostRunner

FULL = (1 << len(NAMES)) - 1
WITHOUT_RESOURCE = FULL & ~(1 << 24)


def test_missing_names_the_bits_that_are_not_set() -> None:
    assert missing(WITHOUT_RESOURCE, 40) == ("CAP_SYS_RESOURCE",)
    assert missing(FULL & ~1 & ~(1 << 40), 40) == ("CAP_CHOWN", "CAP_CHECKPOINT_RESTORE")


def test_capabilities_unknown_to_an_older_kernel_are_not_missing() -> None:
    assert missing((1 << 38) - 1, 37) == ()


def test_bounding_set_is_read_from_the_status_file() -> None:
    assert bounding("Name:\tx\nCapBnd:\t000001fffeffffff\nCapAmb:\t0\n") == 0x1FFFEFFFFFF
    assert bounding("nothing here") is None
    assert missing(None, 40) == ()


def test_wrapper_lists_the_same_capabilities_in_the_same_order() -> None:
    found = re.search(r'^names="([^"]*)"', source().read_text(), re.MULTILINE)
    assert found is not None
    assert tuple(found[1].split()) == NAMES


def _config(**process: Any) -> dict[str, Any]:
    caps = {
        "bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_KILL"],
        "effective": ["CAP_SYS_RESOURCE", "CAP_KILL"],
        "permitted": ["CAP_KILL", "CAP_SYS_RESOURCE"],
        "ambient": ["CAP_SYS_RESOURCE"],
    }
    return {"process": {"capabilities": caps, **process}, "linux": {}}


TRIMMED: dict[str, list[str]] = {
    "bounding": ["CAP_CHOWN", "CAP_KILL"],
    "effective": ["CAP_KILL"],
    "permitted": ["CAP_KILL"],
    "ambient": [],
}


@pytest.fixture
def call(tmp_path: Path) -> Any:
    """Run the wrapper on a machine with the given bounding set; the real runtime is ``echo``."""

    def run(mask: int, *argv: str, floor: int = 0) -> str:
        (tmp_path / "status").write_text(f"Name:\tsh\nCapBnd:\t{mask:016x}\n")
        (tmp_path / "oom_score_adj").write_text(f"{floor}\n")
        env = {"KAILAB_RUNC": "echo", "KAILAB_PROC": str(tmp_path)}
        return HostRunner().run([source(), *argv], env=env, cwd=tmp_path).out.strip()

    return run


wrapper = pytest.mark.processes("kailab-runc")


@wrapper
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("verb", ["create", "run"])
def test_create_drops_only_the_missing_capability(tmp_path: Path, call: Any, indent: int | None, verb: str) -> None:
    (tmp_path / "b").mkdir()
    args = ["sh", "CAP_SYS_RESOURCE", '{"capabilities":{"x":["CAP_SYS_RESOURCE"]}}']
    config = tmp_path / "b" / "config.json"
    config.write_text(json.dumps(_config(args=args), indent=indent))
    output = call(WITHOUT_RESOURCE, "--root", "/r", "--log", "run", verb, "--bundle", str(config.parent), "id")
    assert output == f"--root /r --log run {verb} --bundle {config.parent} id"
    assert json.loads(config.read_text()) == {"process": {"capabilities": TRIMMED, "args": args}, "linux": {}}


@wrapper
@pytest.mark.parametrize("flag", [["--process", "p.json"], ["-p", "p.json"], ["--process=p.json"]])
def test_exec_changes_the_process_file(tmp_path: Path, call: Any, flag: list[str]) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps(_config()["process"]))
    call(WITHOUT_RESOURCE, "exec", *flag, "id")
    assert json.loads(file.read_text()) == {"capabilities": TRIMMED}


@wrapper
def test_config_is_unchanged_without_missing_capabilities(tmp_path: Path, call: Any) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(_config(oomScoreAdj=-500)))
    before = file.read_bytes()
    call(FULL, "create", "id")
    assert file.read_bytes() == before


@wrapper
def test_other_commands_change_no_file(tmp_path: Path, call: Any) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(_config()))
    before = file.read_bytes()
    assert call(WITHOUT_RESOURCE, "kill", "create", "9") == "kill create 9"
    assert call(WITHOUT_RESOURCE, "delete", "--force", "run") == "delete --force run"
    assert file.read_bytes() == before


@wrapper
@pytest.mark.parametrize(
    ("wanted", "own", "given"), [(-500, 0, 0), (-500, -300, -300), (-100, -300, -100), (900, 0, 900)]
)
def test_oom_score_is_not_lowered_below_that_of_the_process(
    tmp_path: Path, call: Any, wanted: int, own: int, given: int
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(_config(oomScoreAdj=wanted)))
    call(WITHOUT_RESOURCE, "create", "id", floor=own)
    assert json.loads(file.read_text())["process"]["oomScoreAdj"] == given


@wrapper
def test_all_missing_capabilities_are_dropped(tmp_path: Path, call: Any) -> None:
    file = tmp_path / "config.json"
    caps = {"bounding": [f"CAP_{name}" for name in NAMES], "effective": [f"CAP_{name}" for name in NAMES]}
    file.write_text(json.dumps({"process": {"capabilities": caps}}))
    mask = WITHOUT_RESOURCE & ~1 & ~(1 << 40) & ~(1 << 23)
    call(mask, "create", "id")
    dropped = {"CAP_CHOWN", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_CHECKPOINT_RESTORE"}
    kept = [f"CAP_{name}" for name in NAMES if f"CAP_{name}" not in dropped]
    assert json.loads(file.read_text())["process"]["capabilities"] == {"bounding": kept, "effective": kept}
