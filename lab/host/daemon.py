"""Starts and stops Docker's daemon, with systemd or without a service manager."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.engine.journal import Journal
from lab.errors import HostNotReady, Leftovers
from lab.host import bridges, docker_config, engines
from lab.host.file_backup import record, records
from lab.host.machine import Machine
from lab.tools.process import Runner

PIDFILE = "/run/kailab/dockerd.pid"
LOG = "/var/log/kailab-dockerd.log"

START = (
    'PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"; ulimit -n "$(ulimit -Hn)"; mkdir -p "${1%/*}";'
    ' exec setsid --fork dockerd --pidfile "$1" >>"$2" 2>&1 </dev/null'
)
"""Detached with setsid, so that neither Ctrl-C nor the end of this process reaches the daemon."""

CONTAINERD = ("/run/containerd/containerd.sock", "/run/docker/containerd/containerd.sock")
"""Sockets of the machine's containerd, and of the one that Docker starts if there is none."""

PATIENCE = 60.0
"""Seconds that the daemon has to answer; the first start takes about 2."""


def pid(machine: Machine) -> int | None:
    """Process id of the running dockerd, or None."""
    for file in (PIDFILE, "/run/docker.pid", "/var/run/docker.pid"):
        text = machine.text(file).strip()
        if text.isdigit() and "".join(machine.command_line(int(text))[:1]).endswith("dockerd"):
            return int(text)
    return None


def reload_command(machine: Machine) -> str:
    """The command that makes a running daemon reload its configuration."""
    return "systemctl reload docker" if machine.systemd else "kill -HUP $(pidof dockerd)"


def reload(run: Runner, machine: Machine) -> None:
    """Make a running daemon reload its configuration; containers keep running."""
    number = pid(machine)
    if number is None:
        return
    argv = ["systemctl", "reload", "docker"] if machine.systemd else ["kill", "-HUP", str(number)]
    machine.as_root(run).run(argv)


def require_empty(run: Runner, machine: Machine, what: str) -> None:
    """Raise Leftovers, starting with ``what``, if Docker has containers or volumes, whoever created them."""
    if found := residents(run, machine):
        raise Leftovers(
            f"{what}: it has containers or volumes",
            evidence=found[:20],
            fix="remove them with 'docker rm -f -v' and 'docker volume rm'; then run the same command again",
        )


def require_idle(run: Runner, machine: Machine, what: str) -> None:
    """Raise Leftovers, starting with ``what``, if containers run, whoever started them, or dockerd does not answer."""
    listed = {name: _listed(run, name, "container", "ps") for name in engines.NAMES if run.which(name) is not None}
    number = pid(machine)
    if number is not None and listed.get("docker") is None:
        raise Leftovers(
            f"{what}: dockerd (process {number}) does not answer, and may have containers",
            fix="run the same command as a user who may use Docker",
        )
    if found := [line for lines in listed.values() for line in lines or ()]:
        raise Leftovers(
            f"{what}: containers are running", evidence=found[:20], fix="stop them; then run the same command again"
        )


def residents(run: Runner, machine: Machine) -> list[str]:
    """Containers and volumes, from the daemon or, if it does not answer, from its directory."""
    if run.which("docker") is not None:
        names = _listed(run, "docker", "container", "ps", "-a")
        if names is not None:
            return names + (_listed(run, "docker", "volume", "volume", "ls", shown="{{.Name}}") or [])
    found = []
    for kind in ("container", "volume"):
        argv = ["find", f"{docker_config.data_root(machine)}/{kind}s", "-mindepth", "1", "-maxdepth", "1", "-type", "d"]
        listed = machine.as_root(run).run(argv, check=False).out.splitlines()
        found += [f"{kind} {line.rpartition('/')[2][:12]}" for line in listed]
    return found


def images(run: Runner, machine: Machine) -> list[str]:
    """Images, from the daemon or, if it does not answer, those with a name from its directory."""
    if run.which("docker") is not None:
        shown = "{{.Repository}}:{{.Tag}} {{.ID}}"
        listed = run.run(["docker", "images", "--format", shown], check=False)
        if listed.code == 0:
            rows = [line.split() for line in listed.out.splitlines()]
            return [number if "<none>" in name else name for name, number in rows]
    argv = [
        "find",
        f"{docker_config.data_root(machine)}/image",
        "-name",
        "repositories.json",
        "-exec",
        "cat",
        "{}",
        "+",
    ]
    text = machine.as_root(run).run(argv, check=False).out
    return sorted(set(re.findall(r'"([^"@]+:[^":@]+)":"sha256:', text)))


def others(run: Runner, machine: Machine) -> list[str]:
    """Networks and plugins of Docker, and what containerd has in other namespaces than Docker's."""
    found = []
    if run.which("docker") is not None:
        custom = ("network", "ls", "--filter", "type=custom")
        found = _listed(run, "docker", "network", *custom, shown="{{.Name}}") or []
        found += _listed(run, "docker", "plugin", "plugin", "ls", shown="{{.Name}}") or []
    root = machine.as_root(run)
    sockets = [path for path in CONTAINERD if machine.path(path).exists() and run.which("ctr") is not None]
    for socket in sockets:
        ctr = ["ctr", "--address", socket]
        for space in root.run([*ctr, "namespaces", "ls", "-q"], check=False).out.split():
            for kind in ("container", "image"):
                names = root.run([*ctr, "--namespace", space, f"{kind}s", "ls", "-q"], check=False).out.split()
                found += [f"containerd's {kind} {name} in namespace {space}" for name in names if space != "moby"]
    if not sockets:
        blobs = ["find", "/var/lib/containerd/io.containerd.content.v1.content/blobs", "-type", "f"]
        if root.run(blobs, check=False).out:
            found.append("images or containers of containerd, which is not running")
    return found


def _listed(run: Runner, engine: str, kind: str, *words: str, shown: str = "{{.Names}}") -> list[str] | None:
    """Lines ``kind name``; None if the engine does not answer."""
    done = run.run([engine, *words, "--format", f"{kind} {shown}"], check=False)
    return done.out.splitlines() if done.code == 0 else None


@dataclass(frozen=True)
class StartEngine:
    """Starts Docker's systemd unit or, without systemd, a detached dockerd with pid file and log."""

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

    def apply(self, run: Runner, journal: Journal) -> None:
        if engines.inspect("docker", run, self.machine).running:
            return
        root = self.machine.as_root(run)
        self._use_legacy_tables(run, journal)
        if record(journal, "daemon", "dockerd") is None and record(journal, "service", "docker") is None:
            before = bridges.read(root)
            kind, name = ("service", "docker") if self.machine.systemd else ("daemon", "dockerd")
            journal.owns(kind, name, self.id, forward=before.forward, chains=str(before.chains))
        if self.machine.systemd:
            root.run(["systemctl", "start", "docker"])
        elif pid(self.machine) is None:
            root.run(["rm", "-f", PIDFILE])
            root.run(["sh", "-c", START, "kailab", PIDFILE, LOG])
        self._wait_until_running(run)

    def _wait_until_running(self, run: Runner) -> None:
        start = self.clock()
        seen = False
        while True:
            found = engines.inspect("docker", run, self.machine)
            if found.running:
                return
            if found.denied:
                raise HostNotReady(
                    f"Docker runs, but this user may not use it: {found.why}",
                    fix="sudo usermod -aG docker $USER; log in again, then run the same command again",
                )
            ended = seen and pid(self.machine) is None
            seen = seen or pid(self.machine) is not None
            if ended or self.clock() - start > PATIENCE:
                raise HostNotReady(
                    f"dockerd {'ended' if ended else f'did not answer within {PATIENCE:.0f} s'}: {found.why}",
                    evidence=self.machine.text(LOG).splitlines()[-12:],
                    fix="journalctl -u docker" if self.machine.systemd else f"see {LOG}",
                )
            self.sleep(0.2)

    def _use_legacy_tables(self, run: Runner, journal: Journal) -> None:
        """Select iptables-legacy if the kernel has only the legacy tables."""
        root = self.machine.as_root(run)
        legacy = run.which("iptables-legacy")
        if legacy is None or root.run(["iptables", "-t", "nat", "-S"], check=False).code == 0:
            return
        if root.run(["iptables-legacy", "-t", "nat", "-S"], check=False).code != 0:
            return
        if record(journal, "alternative", "iptables") is None:
            journal.owns("alternative", "iptables", self.id)
        root.run(["update-alternatives", "--set", "iptables", str(legacy)])

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        """Stop Docker and remove its network. Raises Leftovers if anything of others needs either."""
        root = self.machine.as_root(run)
        changes = records(journal, self.id)
        done = []
        if started := next((change for change in changes if change.kind in ("daemon", "service")), None):
            require_empty(run, self.machine, "Docker keeps running")
            network = started.facts.get("chains") != "True"
            if network and (rules := bridges.rules_of_users(root)):
                raise Leftovers(
                    "Docker keeps running: the chain DOCKER-USER has rules that no lab created",
                    evidence=rules[:20],
                    fix="save them and run 'iptables -F DOCKER-USER'; then run the same command again",
                )
            done.append(self._stop(root, started.kind))
            if network:
                done += bridges.clean(root, started.facts.get("forward", ""))
            journal.released(started.kind, started.name)
        for change in changes:
            if change.kind == "alternative":
                root.run(["update-alternatives", "--auto", change.name], check=False)
                journal.released(change.kind, change.name)
                done.append(f"alternative {change.name} set to automatic")
        return done

    def _stop(self, root: Runner, kind: str) -> str:
        if kind == "service":
            if self.machine.systemd:
                root.run(["systemctl", "stop", "docker.socket", "docker.service"], check=False)
            return "docker.service stopped"
        number = self.machine.text(PIDFILE).strip()
        # A daemon that somebody else started later does not have the lab's pid file as argument.
        ours = number.isdigit() and PIDFILE in self.machine.command_line(int(number))
        if ours:
            root.run(["kill", "-TERM", number])
            start = self.clock()
            while self.machine.command_line(int(number)):
                if self.clock() - start > PATIENCE:
                    raise Leftovers(f"dockerd (process {number}) did not end", fix=f"see {LOG}")
                self.sleep(0.1)
        root.run(["rm", "-f", PIDFILE, LOG])
        root.run(["rmdir", "--ignore-fail-on-non-empty", PIDFILE.rpartition("/")[0]], check=False)
        return "dockerd stopped" if ours else "dockerd had already ended"
