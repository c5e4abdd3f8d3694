"""Interrupted runs: the next run continues, and down removes whatever is incomplete."""

from __future__ import annotations

import pytest

from lab.tools.process import HostRunner
from tests.integration.conftest import SIGINT, SIGKILL, SIGTERM, Cli, at_start_of, containers_of

NAME = "it-fault"
ARGS = ("up", "--profile", "minimal", "--name", NAME, "--yes")


@pytest.mark.timeout(1800)
def test_killed_at_each_step_then_finishes(cli: Cli, engine: HostRunner) -> None:
    """Each run is killed shortly after the start of a further step, until one run completes."""
    cli.labs.append(NAME)
    cut: list[str] = []

    def at_a_new_step(event: dict[str, object]) -> bool:
        if event["event"] != "StepStarted" or event["step"] in cut:
            return False
        cut.append(str(event["step"]))
        return True

    for _ in range(20):
        done = cli.until(at_a_new_step, SIGKILL, *ARGS, delay=0.3)
        if done.code != -SIGKILL:
            break
    assert done.code == 0, done.err[-3000:]
    assert {"cluster", "network"} <= set(cut)
    assert len(cut) >= 4, cut
    assert cli(*ARGS, "--json").json()["ok"]
    assert cli("status", "--json").json()["ok"]
    assert cli(*ARGS, "--json").json()["changed"] == 0
    cli("down")
    assert containers_of(engine, NAME) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sent", [SIGINT, SIGTERM], ids=["ctrl-c", "sigterm"])
def test_interrupt_stops_cleanly_and_down_clears(cli: Cli, engine: HostRunner, sent: int) -> None:
    cli.labs.append(NAME)
    done = cli.until(at_start_of("cluster"), sent, *ARGS, delay=4.0)
    assert done.code == 130, done.err[-2000:]
    assert "re-run the same command to continue" in done.err
    assert "Traceback" not in done.err
    left = engine.run(["pgrep", "-af", f"kailab-{NAME}"], check=False).out
    assert "kind create" not in left
    down = cli("down", "--name", NAME, "--json").json()
    assert down["left"] == []
    assert containers_of(engine, NAME) == []


def test_second_process_on_the_same_lab_is_told(cli: Cli) -> None:
    cli.labs.append(NAME)
    seen = []

    def stop(event: dict[str, object]) -> bool:
        if at_start_of("cluster")(event):
            seen.append(cli(*ARGS, code=8))
            return True
        return False

    cli.until(stop, SIGINT, *ARGS)
    assert "another kailab process" in seen[0].err


def test_half_written_state_does_not_stop_down(cli: Cli) -> None:
    folder = cli.root / "state" / "labs" / "it-torn"
    folder.mkdir(parents=True)
    (folder / "lab.json").write_text('{"asked": {"name": "it-to')
    (folder / "journal.jsonl").write_text('{"op": "owns", "kind": "file", "name": "x"}\n{"op": "ow')
    assert "cannot be read" in cli("status", "--name", "it-torn", code=None).err
    assert cli("down", "--name", "it-torn", "--json").json()["left"] == []
    assert not folder.exists()
