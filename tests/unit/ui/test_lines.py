"""Displays that write lines (plain, GitHub, GitLab, JSON), and the choice of the display."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from lab.engine.events import Bus, Event, Notice, RunFinished, RunStarted, StepFinished, StepProgress, StepStarted
from lab.errors import SpecError
from lab.serialization import to_json
from lab.ui import JsonLines, Renderer, attach, choose
from lab.ui.ci import GitHub, GitLab
from lab.ui.plain import Plain

STEPS = (("host", "Host"), ("kai", "KAI Scheduler"), ("queues", "Queues"), ("late", "Late one"))
START = RunStarted("demo", "up", STEPS, 125.0)
STORY: tuple[Event, ...] = (
    START,
    StepFinished("host", "unchanged", 0.1, "docker 28.1", at=0.1),
    StepStarted("kai", at=1.0),
    StepProgress("kai", "waiting for the operator", 1, 3, at=2.0),
    Notice("warning", "no metrics: queues weigh evenly", at=3.0),
    StepFinished("kai", "changed", 12.34, at=13.3),
    StepFinished("queues", "failed", 0.5, "limit | 100%\nis <too> small", at=14.0),
    RunFinished(False, 14.2, 1, at=14.2),
)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def render(face: Renderer, story: Iterable[Event] = STORY) -> None:
    for event in story:
        face(event)
    face.close()


def plain(story: Iterable[Event] = STORY) -> list[str]:
    out = io.StringIO()
    render(Plain(out), story)
    return out.getvalue().splitlines()


def test_plain_display_of_a_run() -> None:
    assert plain() == [
        "kailab up demo: 4 steps, about 2 min 05 s",
        " = Host · unchanged: docker 28.1" + " " * 43 + "0.1 s",
        " • KAI Scheduler",
        "warning: no metrics: queues weigh evenly",
        " ✓ KAI Scheduler" + " " * 58 + "12.3 s",
        " ✗ Queues · failed: limit | 100% is <too> small" + " " * 28 + "0.5 s",
        "kailab up demo: failed after 14.2 s (1 changed, 1 unchanged, 1 failed, 1 not started)",
    ]


def test_times_are_aligned_and_long_lines_are_kept() -> None:
    lines = [line for line in plain() if line.endswith(" s") and line.startswith(" ")]
    assert {len(line) for line in lines} == {80}
    why = "x" * 100
    (long,) = (line for line in plain([START, StepFinished("kai", "failed", 1.0, why)]) if why in line)
    assert long.endswith(why + "  1.0 s")


def test_progress_is_throttled_per_step() -> None:
    busy = [StepProgress("kai", f"at {n}", at=float(n)) for n in range(1, 36)]
    lines = [line for line in plain([START, StepStarted("kai", at=0.0), *busy]) if ": at " in line]
    assert lines == [f"   KAI Scheduler: at {n}  ({n} s)" for n in (10, 20, 30)]


def test_throttling_is_separate_per_step() -> None:
    story = [START, StepStarted("kai", at=0.0), StepStarted("queues", at=5.0)]
    story += [
        StepProgress("kai", "k", at=10.0),
        StepProgress("queues", "q", at=12.0),
        StepProgress("queues", "q", at=15.0),
    ]
    lines = [line.strip() for line in plain(story) if line.startswith("   ")]
    assert lines == ["KAI Scheduler: k  (10 s)", "Queues: q  (10 s)"]


def test_progress_before_the_start_event_starts_the_clock() -> None:
    story = [START, StepProgress("kai", "looking", at=100.0), StepProgress("kai", "looking", at=111.0)]
    assert plain(story)[-1] == "   KAI Scheduler: looking  (11 s)"


@pytest.mark.parametrize(
    ("finished", "steps", "summary"),
    [
        (RunFinished(True, 1.9, 0), [("unchanged", 2)], "nothing to do, 2 steps as planned (1.9 s)"),
        (RunFinished(True, 63.2, 2), [("changed", 2)], "done in 1 min 03 s (2 changed)"),
        (RunFinished(False, 5, 1), [("changed", 1), ("cancelled", 1)], "stopped after 5.0 s (1 changed, 1 cancelled)"),
    ],
)
def test_last_line_summarizes_the_run(finished: RunFinished, steps: list[tuple[str, int]], summary: str) -> None:
    ends = [StepFinished(f"{o}{n}", o, 1.0) for o, count in steps for n in range(count)]
    names = tuple((end.step, end.step) for end in ends)
    assert plain([RunStarted("demo", "up", names), *ends, finished])[-1] == f"kailab up demo: {summary}"


def test_changed_step_shows_its_previous_state() -> None:
    lines = plain([START, StepFinished("kai", "changed", 1.0, "1 node stopped")])
    assert " ✓ KAI Scheduler · was: 1 node stopped" in lines[1]


def test_second_run_has_its_own_counts() -> None:
    lines = plain([*STORY, RunStarted("demo", "down", (("kai", "KAI Scheduler"),)), RunFinished(True, 1.0, 0)])
    assert lines[-2:] == ["kailab down demo: 1 step", "kailab down demo: nothing to do, 1 step as planned (1.0 s)"]


def test_ascii_stream_gets_ascii_only() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    render(Plain(out), [START, StepStarted("kai"), StepFinished("kai", "failed", 1.0, "→ größer"), Notice("info", "…")])
    lines = raw.getvalue().decode("ascii").splitlines()
    assert lines[1] == " * KAI Scheduler"
    assert " x KAI Scheduler - failed: -> gr??er" in lines[2]


def test_unannounced_step_is_shown_by_id() -> None:
    assert " ✓ surprise" in plain([START, StepFinished("surprise", "changed", 1.0)])[1]


def test_json_lines_are_the_events() -> None:
    out = io.StringIO()
    render(JsonLines(out))
    data = [json.loads(line) for line in out.getvalue().splitlines()]
    assert data == [json.loads(json.dumps(to_json(event))) for event in STORY]
    assert out.getvalue().isascii()


def test_github_groups_annotations_and_summary(tmp_path: Path) -> None:
    out, page = io.StringIO(), tmp_path / "summary.md"
    page.write_text("earlier\n")
    render(GitHub(out, str(page)))
    log = out.getvalue().splitlines()
    group = next(n for n, line in enumerate(log) if line.startswith("::group::✓ KAI Scheduler"))
    assert log[group + 1].split() == ["1.0", "s", "waiting", "for", "the", "operator", "1/3"]
    assert log[group + 2] == "::endgroup::"
    assert "::warning::no metrics: queues weigh evenly" in log
    assert "::error title=Queues::limit | 100%25 is <too> small" in log
    lines = page.read_text().splitlines()
    assert lines[:2] == ["earlier", "### kailab up demo"]
    assert "> ⚠️ no metrics: queues weigh evenly" in lines
    rows = [line for line in lines if line.startswith("|")]
    assert rows == [
        "| | step | time | |",
        "|---|---|---:|---|",
        "| = | Host | 0.1 s | unchanged: docker 28.1 |",
        "| ✓ | KAI Scheduler | 12.3 s |  |",
        r"| ✗ | Queues | 0.5 s | failed: limit \| 100% is \<too\> small |",
        "| · | Late one |  | not started |",
    ]


def test_github_step_without_progress_has_no_group() -> None:
    out = io.StringIO()
    render(GitHub(out), [START, StepStarted("kai"), StepFinished("kai", "changed", 1.0)])
    assert "::group::" not in out.getvalue()
    assert " ✓ KAI Scheduler" in out.getvalue()


def test_output_cannot_forge_a_workflow_command() -> None:
    out = io.StringIO()
    evil = "x\n::set-output name=a::b"
    render(GitHub(out), [START, StepStarted("kai"), StepProgress("kai", evil), StepFinished("kai", "failed", 1, evil)])
    commands = [line for line in out.getvalue().splitlines() if line.startswith("::")]
    assert [command.split("::")[1].split()[0] for command in commands] == ["group", "endgroup", "error"]


def test_summary_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    out = io.StringIO()
    render(GitHub(out, str(tmp_path / "missing" / "summary.md")))
    assert "::warning::the job summary cannot be written" in out.getvalue()


def test_github_group_throttles_progress_counts() -> None:
    out = io.StringIO()
    loading = [StepProgress("kai", "loading", n, 5000, at=n / 100) for n in range(2500)]
    render(GitHub(out), [START, StepStarted("kai"), *loading, StepFinished("kai", "changed", 25.0)])
    lines = out.getvalue().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("::group::"))
    assert [line.split()[0] for line in lines[start + 1 : lines.index("::endgroup::")]] == ["0.0", "10.0", "20.0"]


def test_gitlab_sections_have_unix_times() -> None:
    out = io.StringIO()
    render(GitLab(out, now=lambda: 1000.0))
    text = out.getvalue()
    assert "\x1b[0Ksection_start:988:lab_kai[collapsed=true]\r\x1b[0K ✓ KAI Scheduler" in text
    assert "waiting for the operator 1/3\n\x1b[0Ksection_end:1000:lab_kai\r\x1b[0K\n" in text
    assert text.count("section_start") == text.count("section_end") == 1


def test_gitlab_section_names_have_only_allowed_characters() -> None:
    out = io.StringIO()
    story = [StepStarted("tenant:My vC"), StepProgress("tenant:My vC", "x"), StepFinished("tenant:My vC", "changed", 1)]
    render(GitLab(out, now=lambda: 0.0), [START, *story])
    assert ":lab_tenant_my_vc[" in out.getvalue()


@pytest.mark.parametrize(
    ("stream", "env", "mode"),
    [
        (Terminal(), {"TERM": "xterm"}, "board"),
        (Terminal(), {"TERM": "dumb"}, "plain"),
        (Terminal(), {}, "plain"),
        (io.StringIO(), {"TERM": "xterm"}, "plain"),
        (io.StringIO(), {"GITHUB_ACTIONS": "true"}, "github"),
        (io.StringIO(), {"GITLAB_CI": "true"}, "gitlab"),
        (io.StringIO(), {"CI": "true"}, "plain"),
    ],
)
def test_display_is_chosen_by_stream_and_environment(stream: io.StringIO, env: dict[str, str], mode: str) -> None:
    assert choose(stream, env) == mode


def test_attached_display_is_detached_at_the_end() -> None:
    bus, out = Bus(), io.StringIO()
    with attach(bus, "plain", out):
        bus.emit(Notice("info", "inside"))
    bus.emit(Notice("info", "outside"))
    assert out.getvalue() == "info: inside\n"


def test_github_display_finds_the_summary_in_the_environment(tmp_path: Path) -> None:
    bus, page = Bus(), tmp_path / "summary.md"
    with attach(bus, "auto", io.StringIO(), {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(page)}):
        for event in STORY:
            bus.emit(event)
    assert "KAI Scheduler" in page.read_text()


def test_display_writes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    bus = Bus()
    with attach(bus, "plain"):
        bus.emit(Notice("info", "the story"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "info: the story\n")


def test_unknown_display_is_refused() -> None:
    with pytest.raises(SpecError, match="--ui bord: no such display") as caught, attach(Bus(), "bord"):
        pass
    assert "board" in caught.value.fix


def test_closed_stream_does_not_stop_the_run() -> None:
    bus, out, other = Bus(), io.StringIO(), list[Event]()
    with attach(bus, "plain", out):
        bus.subscribe(other.append)
        out.close()
        bus.emit(START)
        bus.emit(Notice("info", "still running"))
    assert [type(event) for event in other] == [Notice, RunStarted, Notice]
