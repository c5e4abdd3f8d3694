"""Starting and stopping the engine's daemon, under systemd or where no service manager runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.errors import HostNotReady, Leftovers
from lab.host import bridges, engines
from lab.host.file_backup import HostJournal, record, records
from lab.host.machine import Machine
from lab.tools.process import Runner

PIDFILE = "/run/kailab/dockerd.pid"
LOG = "/var/log/kailab-dockerd.log"

START = (
    'PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; ulimit -n "$(ulimit -Hn)"; mkdir -p "${1%/*}";'
    ' exec setsid --fork dockerd --pidfile "$1" >>"$2" 2>&1 </dev/null'
)
"""Detached by setsid, so that neither Ctrl-C nor the end of this process reaches the daemon."""

PATIENCE = 60.0
"""Seconds that the daemon has until it answers; the first start makes its directories and takes about 2."""


def pid(machine: Machine) -> int | None:
    """Process id of the running dockerd, or None."""
    for file in (PIDFILE, "/run/docker.pid", "/var/run/docker.pid"):
        text = machine.text(file).strip()
        if text.isdigit() and "".join(machine.command_line(int(text))[:1]).endswith("dockerd"):
            return int(text)
    return None


def reload_command(machine: Machine) -> str:
    """How a running daemon is told to read its configuration again."""
    return "systemctl reload docker" if machine.systemd else "kill -HUP $(pidof dockerd)"


def reload(run: Runner, machine: Machine) -> None:
    """Have the daemon read its configuration again, if it runs; containers go on. Raises CommandFailed."""
    number = pid(machine)
    if number is None:
        return
    argv = ["systemctl", "reload", "docker"] if machine.systemd else ["kill", "-HUP", str(number)]
    machine.hands(run).run(argv)


def residents(run: Runner, machine: Machine) -> list[str]:
    """Containers and volumes that Docker keeps, whoever made them; without a daemon from its directory."""
    if run.which("docker") is not None:
        names = run.run(["docker", "ps", "-a", "--format", "container {{.Names}}"], check=False)
        if names.code == 0:
            volumes = run.run(["docker", "volume", "ls", "--format", "volume {{.Name}}"], check=False)
            return [*names.out.splitlines(), *volumes.out.splitlines()]
    hands = machine.hands(run)
    found = []
    for what in ("containers", "volumes"):
        words = hands.run(
            ["find", f"/var/lib/docker/{what}", "-mindepth", "1", "-maxdepth", "1", "-type", "d"], check=False
        )
        found += [f"{what[:-1]} {line.rpartition('/')[2][:12]}" for line in words.out.splitlines()]
    return found


@dataclass(frozen=True)
class StartEngine:
    """Starts Docker: its unit under systemd, otherwise dockerd itself, detached, with pid file and log."""

    machine: Machine = field(default_factory=Machine)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    id: str = "engine-start"
    title: str = "start Docker"

    @property
    def commands(self) -> tuple[str, ...]:
        if self.machine.systemd:
            return (self.machine.shown("systemctl start docker"),)
        return (self.machine.shown(f"setsid --fork dockerd --pidfile {PIDFILE} >>{LOG} 2>&1"),)

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Start and wait until it answers.

        Raises:
            HostNotReady: it does not start, or this user may not talk to it.
            CommandFailed: a command could not be run.
        """
        if engines.look("docker", run, self.machine).running:
            return
        hands = self.machine.hands(run)
        self._legacy_tables(run, journal)
        if record(journal, "daemon", "dockerd") is None and record(journal, "service", "docker") is None:
            before = bridges.look(hands)
            kind, name = ("service", "docker") if self.machine.systemd else ("daemon", "dockerd")
            journal.owns(kind, name, self.id, forward=before.forward, chains=str(before.chains))
        if self.machine.systemd:
            hands.run(["systemctl", "start", "docker"])
        elif pid(self.machine) is None:
            hands.run(["rm", "-f", PIDFILE])
            hands.run(["sh", "-c", START, "kailab", PIDFILE, LOG])
        self._until_it_answers(run)

    def _until_it_answers(self, run: Runner) -> None:
        start = self.clock()
        seen = False
        while True:
            found = engines.look("docker", run, self.machine)
            if found.running:
                return
            if found.denied:
                raise HostNotReady(
                    f"Docker runs, but not for this user: {found.why}",
                    fix="sudo usermod -aG docker $USER, log in again, then run the same command again",
                )
            ended = seen and pid(self.machine) is None
            seen = seen or pid(self.machine) is not None
            if ended or self.clock() - start > PATIENCE:
                log = self.machine.text(LOG).splitlines()[-12:]
                raise HostNotReady(
                    f"dockerd {'ended' if ended else f'did not answer within {PATIENCE:.0f} s'}: {found.why}",
                    evidence=log,
                    fix="journalctl -u docker" if self.machine.systemd else f"see {LOG}",
                )
            self.sleep(0.2)

    def _legacy_tables(self, run: Runner, journal: HostJournal) -> None:
        """Point iptables to the legacy tables where the kernel has only those."""
        hands = self.machine.hands(run)
        if run.which("iptables-legacy") is None or hands.run(["iptables", "-t", "nat", "-S"], check=False).code == 0:
            return
        if hands.run(["iptables-legacy", "-t", "nat", "-S"], check=False).code != 0:
            return
        if record(journal, "alternative", "iptables") is None:
            journal.owns("alternative", "iptables", self.id)
        legacy = run.which("iptables-legacy")
        hands.run(["update-alternatives", "--set", "iptables", str(legacy)])

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Stop the daemon that ``apply`` started, and take what it left in the network.

        Raises:
            Leftovers: it keeps containers or volumes; they would be cut off.
        """
        mine = records(journal, self.id)
        started = next((known for known in mine if known.kind in ("daemon", "service")), None)
        said = []
        if started is not None:
            if kept := residents(run, self.machine):
                raise Leftovers(
                    "Docker goes on: there are containers or volumes in it",
                    evidence=kept[:20],
                    fix="remove them (docker rm -f -v, docker volume rm), then run the same command again",
                )
            said += self._stop(run, started.kind)
            if started.facts.get("chains") != "True":
                said += bridges.clean(self.machine.hands(run), started.facts.get("forward", ""))
            journal.released(started.kind, started.name)
        for known in mine:
            if known.kind == "alternative":
                self.machine.hands(run).run(["update-alternatives", "--auto", known.name], check=False)
                journal.released(known.kind, known.name)
                said.append(f"{known.name}: alternative back to automatic")
        return said

    def _stop(self, run: Runner, kind: str) -> list[str]:
        hands = self.machine.hands(run)
        if kind == "service":
            if self.machine.systemd:
                hands.run(["systemctl", "stop", "docker.socket", "docker.service"], check=False)
            return ["docker.service stopped"]
        number = self.machine.text(PIDFILE).strip()
        # The argument names our pid file: a daemon that somebody else started since does not carry it.
        ours = number.isdigit() and PIDFILE in self.machine.command_line(int(number))
        if ours:
            hands.run(["kill", "-TERM", number])
            start = self.clock()
            while self.machine.command_line(int(number)):
                if self.clock() - start > PATIENCE:
                    raise Leftovers(f"dockerd (process {number}) did not end", fix=f"see {LOG}")
                self.sleep(0.1)
        hands.run(["rm", "-f", PIDFILE, LOG])
        hands.run(["rmdir", "--ignore-fail-on-non-empty", PIDFILE.rpartition("/")[0]], check=False)
        return ["dockerd stopped" if ours else "dockerd had ended already"]
