"""Errors: text, JSON and exit codes."""

from __future__ import annotations

import json

import pytest

from lab import errors
from lab.errors import EXIT_CODES, ApiFailed, CommandFailed, LabError, WaitTimeout
from lab.serialization import to_json

ALL = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, LabError)]


def test_text_has_what_command_evidence_and_next() -> None:
    error = LabError("it broke", command="kind create", evidence=["line 1", "line 2"], fix="free some disk")
    assert str(error) == "it broke\n  command: kind create\n  | line 1\n  | line 2\n  next: free some disk"
    assert str(LabError("it broke")) == "it broke"


def test_json_of_an_error_has_its_next_action_and_exit_code() -> None:
    data = to_json(WaitTimeout("not ready", evidence=("pod pending",), fix="look"))
    assert json.loads(json.dumps(data)) == {
        "error": "WaitTimeout",
        "what": "not ready",
        "command": "",
        "evidence": ["pod pending"],
        "next": "look",
        "exit_code": 6,
    }


def test_exit_codes_are_unique_and_documented() -> None:
    codes = [cls.exit_code for cls in ALL]
    assert len(set(codes)) == len(codes)
    assert set(codes) | {0} == set(EXIT_CODES)
    assert all(0 < code < 256 for code in codes)
    assert all(EXIT_CODES.values())


@pytest.mark.parametrize("cls", ALL)
def test_titles_are_unique(cls: type[LabError]) -> None:
    assert [other for other in ALL if other.title == cls.title] == [cls]


def test_failed_command_can_be_pasted() -> None:
    error = CommandFailed(["docker", "run", "a b", "$HOME"], 125, err="boom")
    assert error.command == "docker run 'a b' '$HOME'"
    assert error.what == "docker ended with status 125"
    assert error.evidence == ("boom",)
    assert (error.argv, error.code) == (("docker", "run", "a b", "$HOME"), 125)


def test_evidence_is_the_end_of_stderr_or_stdout() -> None:
    many = "\n".join(str(n) for n in range(40))
    assert CommandFailed(["x"], 1, out="out", err=many).evidence == tuple(str(n) for n in range(28, 40))
    assert CommandFailed(["x"], 1, out="out", err=" \n").evidence == ("out",)
    assert CommandFailed(["x"], 1).evidence == ()
    assert CommandFailed([], 1).what == "command ended with status 1"


def test_api_error_keeps_its_status() -> None:
    assert ApiFailed("gone", status=410).status == 410
