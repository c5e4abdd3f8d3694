"""Registering the runtime wrapper, and undoing that: byte for byte, or without losing anybody's later edits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.engine.journal import Journal
from lab.errors import HostNotReady, Leftovers
from lab.host.docker_config import CONFIG
from lab.host.runtime import PLACE, RuntimeWrapper, source
from tests.support.fakes import Call
from tests.support.host_world import HostWorld


@pytest.mark.parametrize("before", [None, b'{\n\t"log-driver":   "local"}', b""])
def test_undo_unregisters_the_runtime_byte_for_byte(world: HostWorld, journal: Journal, before: bytes | None) -> None:
    if before is not None:
        world.put(CONFIG, before, 0o600)
    files, directories = world.files(), world.directories()
    world.obey_files()
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    config = json.loads(world.machine.path(CONFIG).read_text())
    assert config["default-runtime"] == "kailab-runc"
    assert config["runtimes"]["kailab-runc"]["path"] == PLACE
    assert config.get("log-driver") == ("local" if before else None)
    assert world.files()[PLACE.lstrip("/")] == (source().read_bytes(), 0o755)
    assert world.files()[CONFIG.lstrip("/")][1] == (0o644 if before is None else 0o600)
    ran = len(world.runner.lines)
    fix.apply(world.runner, journal)
    assert len(world.runner.lines) == ran, "the second apply changes nothing"
    fix.undo(world.runner, journal)
    assert (world.files(), world.directories()) == (files, directories)
    assert journal.owned() == ()
    assert fix.undo(world.runner, journal) == []


def test_undo_keeps_later_edits_of_daemon_json(world: HostWorld, journal: Journal) -> None:
    world.put(CONFIG, "{}")
    world.obey_files()
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    config = json.loads(world.machine.path(CONFIG).read_text())
    config["runtimes"]["nvidia"] = {"path": "nvidia-container-runtime"}
    world.put(CONFIG, json.dumps({**config, "debug": True}))
    messages = fix.undo(world.runner, journal)
    assert "kept later changes" in messages[0]
    assert json.loads(world.machine.path(CONFIG).read_text()) == {
        "debug": True,
        "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}},
    }


EDITED = {"debug": True, "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}


@pytest.mark.parametrize("default", [None, "nvidia"])
def test_undo_with_a_running_daemon_keeps_later_edits_of_daemon_json(
    world: HostWorld, journal: Journal, default: str | None
) -> None:
    world.put(CONFIG, "{}")
    world.obey_files()
    world.docker_runs(4711)
    seen: list[str] = []

    def hangup(call: object) -> str:
        seen.append(json.loads(world.machine.path(CONFIG).read_text()).get("default-runtime"))
        return ""

    world.runner.handle("kill -HUP 4711", out=hangup, exact=True)
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    config = json.loads(world.machine.path(CONFIG).read_text())
    config = {**config, **EDITED, "runtimes": {**config["runtimes"], **EDITED["runtimes"]}}  # type: ignore[dict-item]
    wanted = EDITED | ({"default-runtime": default} if default else {})
    world.put(CONFIG, json.dumps({**config, **wanted, "runtimes": config["runtimes"]}))
    fix.undo(world.runner, journal)
    assert json.loads(world.machine.path(CONFIG).read_text()) == wanted
    assert seen == ["kailab-runc", default or "runc"]


def test_edits_between_two_applications_are_kept(world: HostWorld, journal: Journal) -> None:
    world.put(CONFIG, b"{}\n")
    world.obey_files()
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    world.put(CONFIG, '{"debug": true}')
    fix.apply(world.runner, journal)
    fix.undo(world.runner, journal)
    assert json.loads(world.machine.path(CONFIG).read_text()) == {"debug": True}


@pytest.mark.parametrize("installs", [2, 3, 4])
def test_a_killed_write_or_undo_does_not_look_like_an_edit(world: HostWorld, journal: Journal, installs: int) -> None:
    """The record of the next content is written before the content."""
    before = b'{\n\t"log-driver":   "local"}'
    world.put(CONFIG, before)
    world.obey_files(removing=False)
    world.docker_runs(4711)
    world.runner.handle("kill -HUP 4711", exact=True)
    world.runner.handle(["rm", "-f"], out=world._remove)
    world.runner.handle(["rmdir", "--ignore-fail-on-non-empty"], out=world._rmdir)
    fix = RuntimeWrapper(world.machine)
    done = 0
    install = world._install

    def killed(call: Call) -> str:
        nonlocal done
        done += 1
        if done == installs:
            raise KeyboardInterrupt
        return install(call)

    world.runner.handlers[0].out = killed
    for act in (fix.apply, fix.undo):
        for _ in range(2):
            try:
                act(world.runner, journal)
            except KeyboardInterrupt:
                continue
            break
    assert world.machine.path(CONFIG).read_bytes() == before
    assert not world.machine.path(PLACE).exists()
    assert journal.owned() == ()


def test_link_to_a_managed_file_stays_a_link(world: HostWorld, journal: Journal) -> None:
    """As stow and configuration managers leave daemon.json."""
    managed, link = world.put("/etc/managed/daemon.json", "{}"), world.machine.path(CONFIG)
    link.parent.mkdir()
    link.symlink_to("../managed/daemon.json")
    world.obey_files()
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    assert json.loads(managed.read_text())["default-runtime"] == "kailab-runc"
    fix.undo(world.runner, journal)
    assert link.readlink() == Path("../managed/daemon.json")
    assert managed.read_bytes() == b"{}"


def test_undo_after_a_write_that_was_killed_leaves_nothing(world: HostWorld, journal: Journal) -> None:
    files, directories = world.files(), world.directories()
    world.obey_files()
    move = world._move

    def killed(call: Call) -> str:
        if call.argv[3] == CONFIG:
            raise KeyboardInterrupt
        return move(call)

    world.runner.handlers[1].out = killed
    fix = RuntimeWrapper(world.machine)
    with pytest.raises(KeyboardInterrupt):
        fix.apply(world.runner, journal)
    fix.undo(world.runner, journal)
    assert (world.files(), world.directories()) == (files, directories)
    assert journal.owned() == ()


def test_running_daemon_reloads_and_returns_to_runc_before_the_runtime_is_removed(
    world: HostWorld, journal: Journal
) -> None:
    world.docker_runs(4711)
    seen: list[str | None] = []

    def hangup(call: object) -> str:
        seen.append(json.loads(world.machine.path(CONFIG).read_text()).get("default-runtime"))
        return ""

    world.obey_files()
    world.runner.handle("kill -HUP 4711", out=hangup, exact=True, times=2)
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    fix.undo(world.runner, journal)
    assert seen == ["kailab-runc", "runc"]
    assert not world.machine.path(CONFIG).exists()


def test_daemon_is_reloaded_through_systemd_where_it_runs(world: HostWorld, journal: Journal) -> None:
    world.docker_runs(4711)
    world.machine.path("/run/systemd/system").mkdir(parents=True)
    world.obey_files(removing=False)
    world.runner.handle("systemctl reload docker", exact=True, times=1)
    RuntimeWrapper(world.machine).apply(world.runner, journal)


def test_runtime_stays_while_containers_use_it(world: HostWorld, journal: Journal) -> None:
    world.obey_files(removing=False)
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    world.runner.has("docker")
    world.runner.handle("docker ps -aq", out="1\n2\n")
    world.runner.handle(["docker", "inspect", "-f"], out="runc /other\nkailab-runc /node\n")
    with pytest.raises(Leftovers) as caught:
        fix.undo(world.runner, journal)
    assert caught.value.evidence == ("node",)
    assert world.machine.path(PLACE).exists()
    assert journal.owned("file")


def test_runtime_stays_while_a_docker_that_does_not_answer_has_containers_with_it(
    world: HostWorld, journal: Journal
) -> None:
    """Somebody has stopped Docker; its containers could not start again without their runtime."""
    world.put(CONFIG, '{"data-root": "/data"}')
    world.obey_files(removing=False)
    fix = RuntimeWrapper(world.machine)
    fix.apply(world.runner, journal)
    world.runner.has("docker")
    world.runner.handle("docker ps -aq", code=1, err="Cannot connect to the Docker daemon")
    look = ["find", "/data/containers", "-name", "hostconfig.json", "-exec", "grep", "-l", '"Runtime":"kailab-runc"']
    world.runner.handle(look, out="/data/containers/0123456789abcdef/hostconfig.json\n")
    with pytest.raises(Leftovers, match="containers use the runtime kailab-runc") as caught:
        fix.undo(world.runner, journal)
    assert caught.value.evidence == ("0123456789ab",)
    assert world.machine.path(PLACE).exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [('{"default-runtime": "nvidia"}', "nvidia"), ("{not json", "not JSON"), ("[]", "not a JSON object")],
)
def test_unsupported_daemon_json_is_not_changed(world: HostWorld, journal: Journal, text: str, why: str) -> None:
    world.put(CONFIG, text)
    with pytest.raises(HostNotReady, match=why):
        RuntimeWrapper(world.machine).apply(world.runner, journal)
    assert world.files()[CONFIG.lstrip("/")][0] == text.encode()
    assert journal.owned() == ()
