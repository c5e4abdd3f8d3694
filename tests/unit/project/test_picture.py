"""The README's moving picture and the recording that it and the pages of commands show."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scripts.docs.command_pages import command_pages
from scripts.docs.picture import COLUMNS, PICTURE, ROWS, SCENES, draw
from scripts.docs.record import DOWN, E2E, MISTAKE, OFFLINE, SHOWN, UP, masked
from scripts.docs.recording import ROOT, Recorded, recorded, save

RUNS = [
    Recorded("kailab up --name demo", "2 cores", 52.3, 0, tuple((n, f"\x1b[32mstep {n}\x1b[0m") for n in range(60))),
    Recorded("kailab explain --explain nodes.gpus", "no lab", 0.4, 0, ((0.1, "not a scene"),)),
    Recorded(
        "kailab gpus", "KAI 0.16.8, 2 cores", 1.2, 0, ((0.1, ""), (0.1, "  \x1b[1;31m0 <GPU>\x1b[0m " + "x" * 99))
    ),
    Recorded("kailab explain big", "KAI 0.16.8, 2 cores", 1.0, 0, ((0.1, "✗ no node"),)),
    Recorded("kailab e2e", "KAI 0.16.8, 2 cores", 200, 0, ((0.1, "3 passed"),)),
]
SVG = "{http://www.w3.org/2000/svg}"


def scenes() -> list[ET.Element]:
    return [one for one in ET.fromstring(draw(RUNS)).iter(f"{SVG}g") if one.get("class") == "scene"]


def words(element: ET.Element) -> str:
    return "".join(element.itertext())


def test_each_scene_shows_a_run_and_its_output() -> None:
    up, gpus, explain, e2e = scenes()
    assert "$ kailab up --name demo" in words(up)
    assert "✗ no node" in words(explain)
    assert "not a scene" not in words(explain)
    assert "3 passed" in words(e2e)
    (span,) = [one for one in gpus.iter(f"{SVG}tspan") if one.text == "0 <GPU>"]
    assert span.get("class") == "fail b"
    assert span.get("textLength") == f"{7 * 8.4:g}"


def test_long_output_is_shortened_and_says_so() -> None:
    up, gpus, *_ = scenes()
    lines = [words(one) for one in up.iter(f"{SVG}g") if one.get("class") == "line"]
    assert len(lines) == ROWS - 2
    assert (lines[0], lines[-1]) == ("step 0", "step 59")
    assert f"… {60 - len(lines) + 1} lines" in lines
    assert all(len(words(one)) <= COLUMNS for one in gpus.iter(f"{SVG}g") if one.get("class") == "line")


def test_picture_knows_dark_light_and_less_motion() -> None:
    text = draw(RUNS)
    assert "prefers-color-scheme: dark" in text
    assert "prefers-reduced-motion: reduce" in text
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_missing_run_is_named() -> None:
    with pytest.raises(ValueError, match="no recorded run of kailab e2e"):
        draw(RUNS[:-1])


def test_recording_is_saved_and_read(tmp_path: Path) -> None:
    save(RUNS, tmp_path / "r.json")
    assert list(recorded(tmp_path / "r.json")) == RUNS
    assert RUNS[2].text == "\n  0 <GPU> " + "x" * 99


def test_paths_of_the_machine_are_replaced(tmp_path: Path) -> None:
    assert masked(f"wrote {tmp_path}/x in {Path.home()}/y", tmp_path) == "wrote ./x in ~/y"


def test_what_is_committed_is_what_was_recorded() -> None:
    runs = recorded()
    assert {one.command for one in runs} >= set(OFFLINE)
    of_lab = any(one.of(SCENES[0]) for one in runs)
    assert PICTURE.exists() == of_lab == ("docs/assets/first-minutes.svg" in (ROOT / "README.md").read_text())
    if of_lab:
        assert PICTURE.read_text(encoding="utf-8") == draw(runs)
        assert {one.command.partition(" --name")[0] for one in runs} >= {*SHOWN, E2E, UP.partition(" --name")[0]}
    assert not any(str(Path.home()) in one.text for one in runs if Path.home() != Path("/"))


def test_recorded_commands_exist_and_are_on_their_pages() -> None:
    pages = command_pages()
    for command in (*OFFLINE, *SHOWN, UP, E2E, DOWN):
        assert f"reference/cli/{command.split()[1]}.md" in pages
    assert "$ kailab lint half.yaml" in pages["reference/cli/lint.md"]
    assert MISTAKE in (ROOT / "docs" / "tutorial" / "break-and-explain.md").read_text()
