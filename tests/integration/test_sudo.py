"""Ctrl-C and SIGTERM while sudo runs apt: a real user, real sudo, apt and dpkg, on the scratch host."""

from __future__ import annotations

import signal
import subprocess  # noqa: TID251 - the program under test, from outside
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.tools.debian import Debian
from lab.tools.process import HostRunner
from tests.integration.scratch import ScratchHost, scratch_host

ROOT = Path(__file__).parents[2]
USER, PASSWORD = "kailab-test", "correct-horse"
GRACE = 3
SECONDS = 25.0
"""For the end after a signal; the packages would take 10 minutes."""

INSTALL = f"""
import sys, threading
from lab.cli.signals import stopping
from lab.errors import LabError
from lab.host.machine import Machine
from lab.tools.debian import Debian
from lab.tools.process import HostRunner

cancel = threading.Event()
with stopping(cancel):
    try:
        Debian(Machine().as_root(HostRunner(cancel, grace={GRACE}))).install([sys.argv[1]])
    except LabError as error:
        print(error)
        sys.exit(error.exit_code)
"""

# the package's script, as dpkg runs it; one of the packages ignores SIGTERM
POSTINST = """#!/bin/sh
{trap}
echo $$ >/run/{name}.pid
i=0; while [ $i -lt 6000 ]; do sleep 0.1; i=$((i + 1)); done
"""


@dataclass(frozen=True)
class Machine:
    """A scratch host with sudo, a user, and packages whose installation takes 10 minutes."""

    host: ScratchHost

    def as_user(self, *words: str) -> list[str]:
        """Return the command line that runs ``words`` as the user."""
        who = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"]
        return self.host.argv(*who, "env", f"PYTHONPATH={ROOT}", "PYTHONDONTWRITEBYTECODE=1", *words)

    def sudoers(self, rule: str) -> None:
        """Replace the user's rule."""
        self.host.run("sh", "-c", f"printf '%s\\n' '{rule}' >/etc/sudoers.d/test; chmod 440 /etc/sudoers.d/test")

    def pid(self, package: str, process: subprocess.Popen[str]) -> str:
        """Wait until dpkg runs the package's script; return its process id."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and process.poll() is None:
            done = self.host.run("cat", f"/run/{package}.pid", code=None)
            if done.out.strip():
                return done.out.strip()
            time.sleep(0.1)
        process.kill()
        pytest.fail(f"dpkg did not run the package's script: {process.communicate()[0]}")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    debs = tmp_path / "debs"
    debs.mkdir()
    try:
        (deb,) = Debian(HostRunner()).download(["sudo"], debs)
    except LabError as error:
        pytest.skip(f"sudo cannot be downloaded: {error.what}")
    toolkit = tmp_path / "toolkit"
    toolkit.mkdir()
    with scratch_host(toolkit) as host:
        host.home.chmod(0o755)
        (host.home / "sudo.deb").write_bytes(deb.read_bytes())
        host.run("dpkg", "--no-triggers", "-i", str(host.home / "sudo.deb"))
        host.run("useradd", "--create-home", USER)
        host.run("chpasswd", stdin=f"{USER}:{PASSWORD}\n")
        # in the scratch host only: its / is an overlay
        for path in {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), ROOT}:
            host.run("chmod", "o+x", *(str(parent) for parent in path.parents))
        for name, trap in (("slow", ":"), ("stubborn", "trap '' TERM INT HUP")):
            control = host.home / name / "DEBIAN"
            control.mkdir(parents=True)
            about = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
            (control / "control").write_text(about)
            (control / "postinst").write_text(POSTINST.format(name=name, trap=trap))
            (control / "postinst").chmod(0o755)
            host.run("dpkg-deb", "-b", str(control.parent), str(host.home / f"{name}.deb"))
        (host.home / "install.py").write_text(INSTALL)
        yield Machine(host)


@pytest.mark.timeout(600)
def test_signals_end_apt_of_a_user(machine: Machine) -> None:
    home = machine.host.home
    install = [sys.executable, str(home / "install.py")]
    typed = f"echo {PASSWORD} | sudo -S -v && exec {' '.join(install)}"
    cases = {
        "no terminal, SIGINT": ("NOPASSWD: ALL", "slow", signal.SIGINT),
        "no terminal, SIGTERM, stubborn": ("NOPASSWD: ALL", "stubborn", signal.SIGTERM),
        "terminal and password, Ctrl-C": ("ALL", "slow", None),
        "terminal and password, Ctrl-C, stubborn": ("ALL", "stubborn", None),
        "terminal and password, no pty, Ctrl-C, stubborn": ("ALL\nDefaults !use_pty", "stubborn", None),
    }
    results = {}
    for case, (rule, package, sent) in cases.items():
        machine.sudoers(f"{USER} ALL=(ALL) {rule}")
        machine.host.run("rm", "-f", f"/run/{package}.pid")
        deb = str(home / f"{package}.deb")
        words = ["script", "-qec", f"{typed} {deb}", "/dev/null"] if sent is None else [*install, deb]
        process = subprocess.Popen(
            machine.as_user(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdin is not None
        pid = machine.pid(package, process)
        began = time.monotonic()
        if sent is None:
            process.stdin.write("\x03")
            process.stdin.flush()
        else:
            machine.host.run("pkill", f"-{sent.value}", "-u", USER, "-f", "install.py")
        out, _ = process.communicate(timeout=SECONDS)
        took = time.monotonic() - began
        state = machine.host.run("ps", "-o", "stat=", pid, code=None).out.strip().rstrip("N")
        alive = state not in ("", "Z")
        left = machine.host.run("pgrep", "-fl", "dpkg.*--configure", code=None).out
        results[case] = (process.returncode, alive, left, "ended by the interrupt: sudo -n" in out, took < SECONDS)
        sys.stdout.write(f"{case}: {took:.1f} s, code {process.returncode}\n{out}\n")
        machine.host.run("sh", "-c", f"kill -9 {pid}; dpkg --force-all -r {package}", code=None)
    assert results == dict.fromkeys(cases, (130, False, "", True, True))
