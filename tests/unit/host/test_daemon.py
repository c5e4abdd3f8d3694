"""Starting Docker, and stopping it again with removal of its bridges and rules."""

from __future__ import annotations

import pytest

from lab.engine.journal import Journal
from lab.errors import HostNotReady, Leftovers
from lab.host import bridges
from lab.host.daemon import LOG, PATIENCE, PIDFILE, StartEngine
from tests.support.fakes import Call, FakeClock
from tests.support.host_world import HostWorld

DOWN = '{"ServerErrors": ["Cannot connect to the Docker daemon"]}'


def starter(world: HostWorld, clock: FakeClock) -> StartEngine:
    return StartEngine(world.machine, clock, clock.sleep)


def test_start_detaches_dockerd_and_waits_for_its_answer(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    world.runner.has("docker")
    world.runner.has("iptables")
    world.runner.handle("docker info", out=DOWN, times=2)
    world.runner.handle("docker info", out=world.docker_info())
    world.runner.handle("iptables -t filter -S", out="-P INPUT ACCEPT\n-P FORWARD ACCEPT\n")
    world.runner.handle(["rm", "-f", PIDFILE])
    start = world.runner.handle(["sh", "-c", ..., "kailab", PIDFILE, LOG])
    starter(world, clock).apply(world.runner, journal)
    assert "setsid --fork dockerd --pidfile" in start.calls[0].argv[2]
    (record,) = journal.owned()
    assert (record.kind, dict(record.facts)) == ("daemon", {"forward": "ACCEPT", "chains": "False"})
    assert clock.slept == [0.2]
    starter(world, clock).apply(world.runner, journal)
    assert len(start.calls) == 1, "the second apply finds it running"


def test_start_uses_systemd_where_it_runs(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    world.machine.path("/run/systemd/system").mkdir(parents=True)
    world.runner.has("docker")
    world.runner.handle("docker info", out=DOWN, times=1)
    world.runner.handle("docker info", out=world.docker_info())
    world.runner.handle("systemctl start docker", exact=True)
    starter(world, clock).apply(world.runner, journal)
    assert [record.kind for record in journal.owned()] == ["service"]


def test_timeout_shows_the_daemon_log(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    world.runner.has("docker")
    world.docker_runs(5)
    world.put(LOG, "starting\nfailed to start daemon: no space left on device\n")
    world.runner.handle("docker info", out=DOWN)
    with pytest.raises(HostNotReady, match="did not answer within 60 s") as caught:
        starter(world, clock).apply(world.runner, journal)
    assert caught.value.evidence[-1] == "failed to start daemon: no space left on device"
    assert PATIENCE <= sum(clock.slept) < PATIENCE + 1


def test_wait_stops_when_the_daemon_exits(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    world.runner.has("docker")
    world.docker_runs(5)

    def exit_at_third_info(_: Call) -> str:
        if sum("info" in call.argv for call in world.runner.calls) == 3:
            world.command_lines.clear()
        return DOWN

    world.runner.handle("docker info", out=exit_at_third_info)
    with pytest.raises(HostNotReady, match="dockerd ended"):
        starter(world, clock).apply(world.runner, journal)
    assert clock.slept == [0.2]


def test_missing_permission_fails_at_once(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    world.runner.has("docker")
    world.docker_runs(5)
    world.runner.handle("docker info", out=DOWN, times=1)
    world.runner.handle("docker info", out='{"ServerErrors": ["permission denied while trying"]}')
    with pytest.raises(HostNotReady, match="this user may not use it") as caught:
        starter(world, clock).apply(world.runner, journal)
    assert "usermod" in caught.value.fix


def test_kernel_with_legacy_tables_gets_iptables_legacy(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    for program in ("docker", "iptables", "iptables-legacy"):
        world.runner.has(program)
    world.docker_runs(5)
    world.runner.handle("docker info", out=DOWN, times=1)
    world.runner.handle("docker info", out=world.docker_info())
    world.runner.handle("iptables -t nat -S", code=1)
    world.runner.handle("iptables-legacy -t nat -S")
    world.runner.handle("iptables -t filter -S")
    world.runner.handle("update-alternatives --set iptables /usr/bin/iptables-legacy", exact=True)
    starter(world, clock).apply(world.runner, journal)
    assert [record.kind for record in journal.owned()] == ["alternative", "daemon"]


def owned_daemon(journal: Journal, chains: str = "False") -> None:
    journal.owns("daemon", "dockerd", "engine-start", forward="ACCEPT", chains=chains)


@pytest.mark.usefixtures("no_residents")
def test_undo_stops_the_started_daemon_and_removes_its_network(
    world: HostWorld, journal: Journal, clock: FakeClock
) -> None:
    owned_daemon(journal)
    world.docker_runs(4711, "--pidfile", PIDFILE)
    world.put(PIDFILE, "4711")

    def exit_daemon(call: Call) -> str:
        world.command_lines.clear()
        return ""

    world.runner.handle("kill -TERM 4711", out=exit_daemon, exact=True, times=1)
    world.runner.handle(["rm", "-f", PIDFILE, LOG])
    world.runner.handle("rmdir --ignore-fail-on-non-empty /run/kailab")
    world.runner.has("ip")
    world.runner.has("iptables")
    world.runner.handle(["iptables", "-t", ..., "-S"])
    world.runner.handle("iptables -P FORWARD ACCEPT", exact=True, times=1)
    world.runner.handle("ip -o link show type bridge", out="4: docker0: <BROADCAST> mtu 1500\n7: br0: <UP>\n")
    world.runner.handle("ip link delete docker0", exact=True)
    messages = starter(world, clock).undo(world.runner, journal)
    assert messages == ["dockerd stopped", "bridge docker0 removed"]
    assert starter(world, clock).undo(world.runner, journal) == []


@pytest.mark.usefixtures("no_residents")
def test_daemon_started_by_others_is_not_stopped(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    owned_daemon(journal, chains="True")
    world.docker_runs(4711, "--pidfile", "/run/docker.pid")
    world.put(PIDFILE, "4711")
    world.runner.handle(["rm", "-f", PIDFILE, LOG])
    world.runner.handle("rmdir")
    assert starter(world, clock).undo(world.runner, journal) == ["dockerd had already ended"]


@pytest.mark.usefixtures("no_residents")
def test_daemon_that_ignores_sigterm_is_reported(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    owned_daemon(journal)
    world.docker_runs(4711, "--pidfile", PIDFILE)
    world.put(PIDFILE, "4711")
    world.runner.handle("kill -TERM 4711")
    with pytest.raises(Leftovers, match="did not end"):
        starter(world, clock).undo(world.runner, journal)
    assert journal.owned("daemon")


def test_daemon_stays_while_volumes_exist(world: HostWorld, journal: Journal, clock: FakeClock) -> None:
    owned_daemon(journal)
    world.runner.has("docker")
    world.runner.handle("docker ps -a --format")
    world.runner.handle("docker volume ls", out="volume data\n")
    with pytest.raises(Leftovers) as caught:
        starter(world, clock).undo(world.runner, journal)
    assert caught.value.evidence == ("volume data",)


@pytest.mark.usefixtures("no_residents")
def test_daemon_stays_while_its_owner_has_firewall_rules_in_its_chains(
    world: HostWorld, journal: Journal, clock: FakeClock
) -> None:
    """Docker's documentation names DOCKER-USER for them; removing Docker's chains would lose them."""
    owned_daemon(journal)
    world.docker_runs(4711, "--pidfile", PIDFILE)
    world.put(PIDFILE, "4711")
    world.runner.has("iptables")
    mine = "-A DOCKER-USER ! -s 192.0.2.0/24 -i eth0 -j DROP"
    rules = f"-P FORWARD DROP\n-N DOCKER-USER\n{mine}\n-A DOCKER-USER -j RETURN\n"
    world.runner.handle("iptables -t filter -S", out=rules)
    with pytest.raises(Leftovers, match="DOCKER-USER has rules that no lab created") as caught:
        starter(world, clock).undo(world.runner, journal)
    assert caught.value.evidence == (mine,)
    assert journal.owned("daemon")


def test_clean_keeps_rules_of_others(world: HostWorld) -> None:
    world.runner.has("ip")
    world.runner.has("iptables")
    world.runner.handle(
        "iptables -t filter -S",
        out=(
            "-P FORWARD DROP\n-N DOCKER\n-N MINE\n-A FORWARD -j DOCKER\n-A FORWARD -o docker0 -j ACCEPT\n"
            "-A FORWARD -o br0 -j MINE\n-A DOCKER -j RETURN\n"
            '-A INPUT -m comment --comment "docker0 is mine" -j ACCEPT\n'
        ),
    )
    world.runner.handle(
        "iptables -t nat -S", out="-A POSTROUTING -s 172.18.0.0/16 ! -o br-0123456789ab -j MASQUERADE\n"
    )
    world.runner.handle("iptables -t filter -D FORWARD -j DOCKER", exact=True, times=1)
    world.runner.handle("iptables -t filter -D FORWARD -o docker0 -j ACCEPT", exact=True, times=1)
    world.runner.handle("iptables -t filter -F DOCKER", exact=True, times=1)
    world.runner.handle("iptables -t filter -X DOCKER", exact=True, times=1)
    world.runner.handle(
        "iptables -t nat -D POSTROUTING -s 172.18.0.0/16 '!' -o br-0123456789ab -j MASQUERADE", exact=True, times=1
    )
    world.runner.handle("iptables -P FORWARD ACCEPT", exact=True, times=1)
    world.runner.handle("ip -o link show type bridge", out="5: br-0123456789ab: <UP>\n")
    world.runner.handle("ip link delete br-0123456789ab", exact=True, times=1)
    messages = bridges.clean(world.runner, "ACCEPT")
    assert messages == ["4 rules and chains of Docker removed", "bridge br-0123456789ab removed"]


def test_existing_chains_are_recorded(world: HostWorld) -> None:
    assert bridges.read(world.runner) == bridges.BridgeSettings()
    world.runner.has("iptables")
    world.runner.handle("iptables -t filter -S", out="-P FORWARD DROP\n-N DOCKER-USER\n")
    assert bridges.read(world.runner) == bridges.BridgeSettings("DROP", chains=True)
