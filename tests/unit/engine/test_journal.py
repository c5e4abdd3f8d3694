"""The journal: claims, releases, damaged files and full disks."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from lab.engine.journal import Journal, Owned
from lab.errors import LabError


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "deep" / "journal.jsonl")


def test_nothing_is_owned_before_the_first_claim(journal: Journal) -> None:
    assert journal.owned() == ()
    assert not journal.path.parent.exists()  # reading creates no folder


def test_only_its_owner_may_read_it(journal: Journal) -> None:
    """The host's journal has old contents of files such as daemon.json; one of an older kailab is closed too."""
    journal.path.parent.mkdir()
    journal.path.touch(0o644)
    journal.owns("file", "/etc/docker/daemon.json", "runtime", before="base64:e30=")
    assert journal.path.stat().st_mode & 0o777 == 0o600


def test_claims_are_listed_in_order_until_released(journal: Journal) -> None:
    journal.owns("container", "node-1", "cluster", image="kailab-node")
    journal.owns("file", "/tmp/x", "cluster")
    journal.owns("container", "node-2", "cluster")
    journal.released("container", "node-1")
    assert journal.owned() == (Owned("file", "/tmp/x", "cluster", {}), Owned("container", "node-2", "cluster", {}))
    assert [o.name for o in journal.owned("container")] == ["node-2"]


def test_facts_are_read_by_another_process(journal: Journal) -> None:
    journal.owns("host-change", "sysctl fs.inotify", "host", undo="sysctl -w fs.inotify.max_user_watches=8192")
    (owned,) = Journal(journal.path).owned()
    assert owned.facts == {"undo": "sysctl -w fs.inotify.max_user_watches=8192"}
    assert owned.step == "host"


def test_repeated_claim_is_written_only_with_new_facts(journal: Journal) -> None:
    journal.owns("container", "n", "cluster")
    journal.owns("container", "n", "cluster")
    assert len(journal.path.read_text().splitlines()) == 1
    journal.owns("container", "n", "cluster", id="abc")
    assert journal.owned() == (Owned("container", "n", "cluster", {"id": "abc"}),)


def test_claim_after_release_is_owned(journal: Journal) -> None:
    for _ in range(2):
        journal.owns("container", "n", "cluster")
        journal.released("container", "n")
    journal.owns("container", "n", "cluster")
    assert len(journal.owned()) == 1


def test_every_record_has_a_time(journal: Journal) -> None:
    journal.owns("container", "n", "cluster")
    at = json.loads(journal.path.read_text())["at"]
    assert at.endswith("Z")
    assert len(at) == len("2026-01-01T00:00:00Z")


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_torn_last_line_is_ignored_and_next_claim_is_complete(journal: Journal, cut: int) -> None:
    journal.owns("container", "n1", "cluster")
    journal.owns("container", "n2", "cluster")
    journal.path.write_bytes(journal.path.read_bytes()[:-cut])
    # Cutting only the newline leaves a complete record.
    survivors = ["n1", "n2"] if cut == 1 else ["n1"]
    assert [o.name for o in journal.owned()] == survivors
    journal.owns("container", "n3", "cluster")
    assert [o.name for o in journal.owned()] == [*survivors, "n3"]


def test_invalid_lines_are_skipped(journal: Journal) -> None:
    journal.owns("container", "n1", "cluster")
    with journal.path.open("ab") as file:
        file.write(b'\x00\xff\xfe\n[1, 2]\n"text"\n{"op": "owns"}\n{"op": "owns", "kind": [], "name": "x"}\n\n')
        file.write(b'{"op": "from the future", "kind": "container", "name": "y"}\n')
    journal.owns("container", "n2", "cluster")
    assert [o.name for o in journal.owned()] == ["n1", "n2"]


def test_empty_file_gets_no_blank_line(journal: Journal) -> None:
    journal.path.parent.mkdir()
    journal.path.touch()
    journal.owns("container", "n", "cluster")
    assert journal.path.read_text().startswith("{")


def test_any_characters_in_names_are_preserved(journal: Journal) -> None:
    name = 'Größe\n\u2028 "quoted" \\ end'
    journal.owns("file", name, "cluster")
    assert [o.name for o in journal.owned()] == [name]


def test_full_disk_is_an_error_before_anything_is_created(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LabError, match=r"cannot write the journal .*: No space left on device") as caught:
            journal.owns("container", "n", "cluster")
    assert "free disk space" in caught.value.fix


def test_claim_after_a_partial_line_starts_a_new_line(journal: Journal) -> None:
    journal.owns("container", "n1", "cluster")
    with journal.path.open("a") as file:
        file.write('{"at": "2026-01-01T00:00:00Z", "op": "ow')
    journal.owns("container", "n2", "cluster")
    assert [o.name for o in journal.owned()] == ["n1", "n2"]


def test_state_directory_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=r"cannot (read|write) the journal "):
        Journal(tmp_path / "file" / "journal.jsonl").owns("container", "n", "cluster")


def test_unreadable_journal_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()  # a directory: unreadable for root as well
    with pytest.raises(LabError, match=r"cannot read the journal .*: Is a directory"):
        Journal(tmp_path / "journal.jsonl").owned()


def test_concurrent_claims_are_all_kept(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    start = threading.Barrier(8, timeout=10)
    errors: list[Any] = []

    def claim(number: int) -> None:
        try:
            start.wait()
            for k in range(5):
                journal.owns("container", f"{number}-{k}", "cluster")
        except BaseException as error:  # noqa: BLE001 - asserted below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(journal.owned()) == 40


def test_journal_directory_is_private(journal: Journal) -> None:
    journal.owns("container", "n", "cluster")
    assert journal.path.parent.stat().st_mode & 0o077 == 0
