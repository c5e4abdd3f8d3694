"""HostRunner with small real programs, which a fake cannot replace."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from lab.errors import CommandFailed, Interrupted
from lab.tools.process import HostRunner
from lab.tools.processes import STARTED

pytestmark = pytest.mark.processes("echo", "sleep", "cat", "sh", "true", "wc", "pwd")


@pytest.fixture
def run(tmp_path: Path) -> HostRunner:
    return HostRunner(log=tmp_path / "lab.log", grace=0.2)


def test_result_has_output_status_and_duration(run: HostRunner) -> None:
    result = run.run(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (result.code, result.out, result.err) == (3, "out\n", "err\n")
    assert 0 < result.seconds < 5


def test_arguments_are_not_expanded_by_a_shell(run: HostRunner) -> None:
    assert run.run(["echo", "$HOME", "a  b", "*", ""]).out == "$HOME a  b * \n"


def test_failure_includes_command_and_output(run: HostRunner) -> None:
    with pytest.raises(CommandFailed, match="status 7") as caught:
        run.run(["sh", "-c", "echo why >&2; exit 7"])
    assert caught.value.code == 7
    assert caught.value.evidence == ("why",)
    assert caught.value.command == "sh -c 'echo why >&2; exit 7'"


def test_failure_names_the_signal(run: HostRunner) -> None:
    with pytest.raises(CommandFailed, match="sh was ended by signal 9"):
        run.run(["sh", "-c", "kill -9 $$"])


@pytest.mark.parametrize("stdin", ["text\nöß", b"text\n\xc3\xb6\xc3\x9f"])
def test_stdin_as_text_or_bytes(run: HostRunner, stdin: str | bytes) -> None:
    assert run.run(["cat"], stdin=stdin).out == "text\nöß"


def test_stdin_is_empty_by_default(run: HostRunner) -> None:
    assert run.run(["wc", "-c"]).out.strip() == "0"


def test_large_stdin(run: HostRunner) -> None:
    assert run.run(["wc", "-c"], stdin=b"\0" * 3_000_000).out.strip() == "3000000"


def test_many_lines_and_invalid_utf8_are_read(run: HostRunner) -> None:
    script = "i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done; printf '\\377end'"
    lines = run.run(["sh", "-c", script]).out.splitlines()
    assert lines[:5000] == [str(n) for n in range(5000)]
    assert lines[5000] == "\ufffdend"


def test_end_of_a_command_is_noticed_immediately(run: HostRunner) -> None:
    """The library sh polls once a second when stdin is given: 20 commands would take 20 s."""
    start = time.monotonic()
    for _ in range(20):
        run.run(["cat"], stdin="x")
    assert time.monotonic() - start < 5


def test_lines_are_delivered_while_the_command_runs(run: HostRunner, tmp_path: Path) -> None:
    go = tmp_path / "go"
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        go.touch()  # the command waits for this file

    script = f"echo first; while [ ! -e {go} ]; do sleep 0.01; done; echo second >&2"
    run.run(["sh", "-c", script], on_line=on_line, timeout=10)
    assert lines == ["first", "second"]


def test_failing_line_listener_ends_the_command(run: HostRunner) -> None:
    def fail(line: str) -> None:
        raise ValueError(line)

    start = time.monotonic()
    with pytest.raises(ValueError, match="one"):
        run.run(["sh", "-c", "echo one; echo two; sleep 30"], on_line=fail)
    assert time.monotonic() - start < 10


def test_environment_variables_are_added(run: HostRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLD", "old")
    assert run.run(["sh", "-c", "echo $OLD $NEW"], env={"NEW": "new"}).out == "old new\n"
    assert "NEW" not in os.environ


def test_started_processes_and_their_children_are_marked(run: HostRunner) -> None:
    assert f"{STARTED}=" in run.run(["sh", "-c", "env"]).out
    assert STARTED not in os.environ


def test_working_directory(run: HostRunner, tmp_path: Path) -> None:
    assert run.run(["pwd"], cwd=tmp_path).out == f"{tmp_path}\n"
    with pytest.raises(CommandFailed, match="does not exist"):
        run.run(["pwd"], cwd=tmp_path / "missing")


@pytest.mark.parametrize("program", ["kailab-no-such-program", "/no/such/program", "/etc/passwd"])
def test_missing_program_is_reported_without_traceback(run: HostRunner, program: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        run.run([program, "version"])
    assert caught.value.code == 127
    assert program in caught.value.what
    assert "Traceback" not in str(caught.value)


def test_which_finds_programs_on_path(run: HostRunner) -> None:
    found = run.which("sh")
    assert found is not None
    assert found.name == "sh"
    assert run.which("kailab-no-such-program") is None


def test_timeout_ends_the_command(run: HostRunner) -> None:
    with pytest.raises(CommandFailed, match=r"sleep did not end within 0\.2 s"):
        run.run(["sleep", "30"], timeout=0.2)


def test_timeout_kills_a_command_that_ignores_sigterm(run: HostRunner) -> None:
    start = time.monotonic()
    with pytest.raises(CommandFailed, match="did not end within"):
        run.run(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], timeout=0.2)
    assert time.monotonic() - start < 10


def test_timeout_kills_child_processes(run: HostRunner, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' >/dev/null 2>&1 & echo $! > {pid_file}; wait"
    with pytest.raises(CommandFailed):
        run.run(["sh", "-c", script], timeout=0.3)
    assert ended(int(pid_file.read_text()))


@pytest.mark.processes("sh", "setsid")
def test_children_with_a_session_of_their_own_end_too(tmp_path: Path) -> None:
    """As apt's dpkg; it gets the grace period to end."""
    files = {name: tmp_path / name for name in ("pid", "cleaned")}
    child = (
        f"trap 'sleep 0.05; touch {files['cleaned']}; exit' TERM; echo $$ >{files['pid']}; while :; do sleep 0.02; done"
    )
    with pytest.raises(CommandFailed, match="did not end"):
        HostRunner(grace=20).run(["sh", "-c", 'setsid sh -c "$0" & wait', child], timeout=2)
    assert ended(int(files["pid"].read_text()))
    assert files["cleaned"].exists()


def ended(pid: int) -> bool:
    """Whether the process exits within 5 s."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{pid}/stat")
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


FAKE_SUDO = """#!/bin/sh
shift
[ "$1" != kill ] || echo "$*" >>"$0.signals"
exec "$@"
"""


@pytest.mark.processes("sudo", "sh")
def test_signals_of_a_sudo_command_are_sent_by_sudo(
    run: HostRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """root's processes ignore signals of a user; the command stays in the session whose terminal knows the password."""
    sudo = tmp_path / "sudo"
    sudo.write_text(FAKE_SUDO)
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    seen: list[str] = []

    def on_line(line: str) -> None:
        seen.extend(line.split())
        run.cancel.set()

    script = "trap '' TERM; read -r pid name state parent group session rest </proc/$$/stat; echo $pid $group $session"
    with pytest.raises(Interrupted):
        run.run(["sudo", "-n", "sh", "-c", f"{script}; while :; do sleep 0.05; done"], on_line=on_line)
    pid, group, session = map(int, seen)
    assert (group, session) == (pid, os.getsid(0))
    signals = (tmp_path / "sudo.signals").read_text().splitlines()
    assert signals[:2] == [f"kill -s 15 -- -{pid}", f"kill -s 9 -- -{pid}"]
    assert ended(pid)


def test_cancel_ends_a_running_command(run: HostRunner) -> None:
    started = threading.Event()
    threading.Thread(target=lambda: started.wait(10) and run.cancel.set()).start()
    with pytest.raises(Interrupted, match="ended by the interrupt: sh -c"):
        run.run(["sh", "-c", "echo go; sleep 30"], on_line=lambda _: started.set())


def test_command_that_succeeds_despite_cancel_returns_its_output(run: HostRunner) -> None:
    started = threading.Event()
    threading.Thread(target=lambda: started.wait(10) and run.cancel.set()).start()
    script = "trap 'echo undone; exit 0' TERM; echo go; while :; do sleep 0.02; done"
    assert run.run(["sh", "-c", script], on_line=lambda _: started.set()).out == "go\nundone\n"


def test_no_command_starts_after_cancel(run: HostRunner, tmp_path: Path) -> None:
    run.cancel.set()
    with pytest.raises(Interrupted, match="not started"):
        run.run(["sh", "-c", f"echo > {tmp_path / 'created'}"])
    assert not (tmp_path / "created").exists()


def test_every_command_is_logged(run: HostRunner, tmp_path: Path) -> None:
    run.run(["echo", "a b"])
    run.run(["sh", "-c", "echo bad >&2; exit 2"], check=False)
    log = (tmp_path / "lab.log").read_text().splitlines()
    assert log[:2] == ["$ echo 'a b'", "a b"]
    assert log[2].startswith("[0] ")
    assert log[3:5] == ["$ sh -c 'echo bad >&2; exit 2'", "bad"]
    assert log[5].startswith("[2] ")


SECRET = "opaque-0123456789"
LEAK = f'echo "    client-key-data: {SECRET}"; echo "http://user:{SECRET}@proxy" >&2; exit "$0"'


def test_log_has_no_secrets_and_is_private(run: HostRunner, tmp_path: Path) -> None:
    out = run.run(["sh", "-c", LEAK, "0"]).out
    assert SECRET in out  # the caller needs it
    run.run(["echo", f"https://user:{SECRET}@index"])
    log = tmp_path / "lab.log"
    assert SECRET not in log.read_text()
    assert log.read_text().count("<redacted>") == 6
    assert log.stat().st_mode & 0o777 == 0o600


def test_errors_have_no_secrets(run: HostRunner) -> None:
    with pytest.raises(CommandFailed) as failed:
        run.run(["sh", "-c", LEAK, "3"])
    assert SECRET not in f"{failed.value}{failed.value.out}{failed.value.err}{failed.value.argv}"
    run.cancel.set()
    with pytest.raises(Interrupted) as stopped:
        run.run(["echo", f"https://user:{SECRET}@index"])
    assert SECRET not in str(stopped.value)


def test_unwritable_log_does_not_fail_the_command(tmp_path: Path) -> None:
    (tmp_path / "lab.log").mkdir()
    assert HostRunner(log=tmp_path / "lab.log").run(["echo", "hi"]).out == "hi\n"


def test_concurrent_commands_keep_their_outputs_apart(run: HostRunner) -> None:
    outputs: dict[int, str] = {}

    def echo(number: int) -> None:
        outputs[number] = run.run(["echo", str(number)]).out

    threads = [threading.Thread(target=echo, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {number: f"{number}\n" for number in range(8)}
