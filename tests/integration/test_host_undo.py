"""``kailab down --host`` on a scratch host: real packages, a real Docker, kernel parameters and cgroup mounts.

The scratch host has nothing of Docker, no cgroup mount, low limits, and no forwarding. kailab's fixes change that, and
undoing them restores it, unless something depends on it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lab.config import LabSpec
from lab.supply import Supply
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads import pods
from tests.integration.conftest import Cli, Done
from tests.integration.killed_at_each_effect import run_until_it_survives
from tests.integration.scratch import ScratchHost, scratch_host
from tests.integration.scratch.host import environment
from tests.integration.scratch.packages import offer

PACKAGES = ("docker.io", "containerd", "runc", "tini", "debootstrap")
LIMITS = {"max_user_instances": 128, "max_user_watches": 8192}

APPLY = """
from lab.engine.journal import Journal
from lab.host.fixes import all_fixes
from lab.paths import host_journal
from lab.tools.process import HostRunner
for fix in all_fixes():
    if not fix.id.startswith("nvidia"):
        fix.apply(HostRunner(), Journal(host_journal()))
"""

BARE = f"""set -e
dpkg --purge --force-depends {" ".join(PACKAGES)} >/dev/null 2>&1
rm -rf /usr/sbin/runc* /etc/docker /etc/containerd /opt/containerd /var/lib/containerd
umount /var/lib/docker
mkdir lib && for entry in /var/lib/*; do [ "$entry" = /var/lib/docker ] || cp -a "$entry" lib/; done
mount --bind lib /var/lib
groupdel docker 2>/dev/null || true
umount -R /sys/fs/cgroup
sysctl -qw net.ipv4.ip_forward=0
"""
"""Makes a machine without Docker. Its cgroup mounts and forwarding are of its own namespaces.

/var/lib is a copy: below the scratch host's own /var/lib/docker is that of this machine.
"""


class UndoCli(Cli):
    """The ``kailab`` command on the scratch host."""

    def __init__(self, host: ScratchHost) -> None:
        root = host.home / "user"
        root.mkdir()
        self.host = host
        super().__init__(root)
        self.env = {**environment(), "KAILAB_STATE": str(root / "state"), "KUBECONFIG": str(self.kubeconfig)}

    def argv(self, *words: str) -> list[str]:
        """Return the command line."""
        return self.host.argv(sys.executable, "-m", "lab", *words, cwd=self.root)

    def apply(self) -> None:
        """Apply every fix, as ``kailab up --yes`` does."""
        self.host.run(sys.executable, "-c", APPLY, env=self.env, timeout=900)

    def undo(self, code: int = 0) -> Done:
        """Run ``kailab down --host``."""
        return self("down", "--name", "it-undo", "--host", "--yes", code=code)


@pytest.fixture
def host() -> Iterator[ScratchHost]:
    run = HostRunner()
    if run.which("apt-get") is None or run.which("dockerd") is None:
        pytest.skip("needs Debian with docker.io")
    supply = Supply(LabSpec(), run, ContainerEngine(run), engine_runs=False)
    with scratch_host(supply.binary("container-toolkit")) as made:
        offer(made, PACKAGES)
        made.run("sh", "-c", BARE, timeout=600)
        # inotify's limits are the machine's: files are mounted over them
        for name, value in LIMITS.items():
            file = made.home / name
            file.write_text(f"{value}\n")
            made.run("mount", "--bind", file, f"/proc/sys/fs/inotify/{name}")
        yield made


@pytest.fixture
def cli(host: ScratchHost) -> UndoCli:
    return UndoCli(host)


def state(host: ScratchHost) -> dict[str, Any]:
    """What the fixes may change."""
    paths = "/etc/docker /etc/containerd /opt/containerd /var/lib/docker /var/lib/containerd /run/docker /run/kailab"
    return {
        "packages": host.run("sh", "-c", "dpkg-query -W -f '${Package} ${Status}\\n' | grep -v 'deinstall'").out,
        "etc": {path: facts for path, facts in host.etc().items() if not path.endswith(("-", ".cache"))},
        "paths": host.run("sh", "-c", f"ls -d {paths} /run/containerd /run/docker.sock 2>/dev/null", code=None).out,
        "mounts": host.run("sh", "-c", "grep ' /sys/fs/cgroup' /proc/self/mounts", code=None).out,
        "sysctls": [host.run("cat", f"/proc/sys/fs/inotify/{name}").out for name in LIMITS],
        "forward": host.run("cat", "/proc/sys/net/ipv4/ip_forward").out,
        "links": host.run("sh", "-c", "ls /sys/class/net").out,
        "rules": host.run("iptables", "-S", code=None).out,
        "processes": host.run("sh", "-c", "grep -l dockerd /proc/[0-9]*/comm", code=None).out,
    }


@pytest.mark.timeout(3000)
def test_everything_is_undone(host: ScratchHost, cli: UndoCli) -> None:
    before = state(host)
    assert "docker.io" not in before["packages"]
    assert before["mounts"] == ""
    cli.apply()
    after = state(host)
    assert all(f"{name} install ok installed" in after["packages"] for name in PACKAGES)
    assert after["sysctls"] == ["1024\n", "1048576\n"]
    assert after["forward"] == "1\n"
    assert " /sys/fs/cgroup" in after["mounts"]
    assert host.run("docker", "version", "-f", "{{.Server.Version}}").out
    undone = cli.undo().out
    assert "debootstrap" in undone
    assert state(host) == before
    assert "host changes" not in cli.undo().out


@pytest.mark.timeout(3000)
def test_docker_stays_while_it_has_what_no_lab_created(host: ScratchHost, cli: UndoCli) -> None:
    before = state(host)
    cli.apply()
    run = HostRunner()
    archive = Supply(LabSpec(), run, ContainerEngine(run), engine_runs=False).image(pods.IMAGE)
    host.run("docker", "load", "-q", "-i", archive)
    host.run("docker", "network", "create", "theirs")
    ctr = ("ctr", "--address", "/run/docker/containerd/containerd.sock")
    host.run(*ctr, "images", "import", archive)
    config = json.loads(host.run("cat", "/etc/docker/daemon.json", code=None).out or "{}")
    host.run(
        "sh",
        "-c",
        "mkdir -p /etc/docker/certs.d; echo mine >/etc/docker/certs.d/ca.crt; cat >/etc/docker/daemon.json",
        stdin=json.dumps({**config, "debug": True}),
    )

    refused = cli.undo(code=7)
    assert "Docker was kept: it has what no lab created" in refused.err
    assert f"image {pods.IMAGE}" in refused.err
    assert "network theirs" in refused.err
    assert "in namespace default" in refused.err
    assert host.run("docker", "images", "-q").out, "Docker runs, with its images"

    host.run("docker", "network", "rm", "theirs")
    host.run("docker", "rmi", pods.IMAGE)
    for name in host.run(*ctr, "images", "ls", "-q").out.split():
        host.run(*ctr, "images", "rm", name)
    host.run(
        "docker",
        "create",
        "--name",
        "kailab-theirs-control-plane",
        "--label",
        "io.x-k8s.kind.cluster=kailab-theirs",
        _empty_image(host),
        "true",
    )
    refused = cli.undo(code=7)
    assert "labs need them" in refused.err
    assert "lab theirs: kailab-theirs-control-plane" in refused.err
    assert state(host)["forward"] == "1\n"
    host.run("docker", "rm", "-v", "kailab-theirs-control-plane")
    host.run("docker", "rmi", "theirs")
    host.run("iptables", "-I", "DOCKER-USER", "-s", "192.0.2.1", "-j", "DROP")
    assert "-A DOCKER-USER -s 192.0.2.1/32 -j DROP" in cli.undo(code=7).err
    assert host.run("docker", "version", "-f", "{{.Server.Version}}").out, "Docker runs, with its owner's rules"
    host.run("iptables", "-D", "DOCKER-USER", "-s", "192.0.2.1", "-j", "DROP")

    undone = cli.undo().out
    assert "/etc/docker kept: it has /etc/docker/certs.d/ca.crt, /etc/docker/daemon.json" in undone
    assert json.loads(host.run("cat", "/etc/docker/daemon.json").out) == {"debug": True}
    host.run("rm", "-rf", "/etc/docker")
    assert state(host) == before


@pytest.mark.timeout(3000)
def test_undo_that_is_killed_at_each_effect_finishes(host: ScratchHost, cli: UndoCli) -> None:
    before = state(host)
    cli.apply()
    assert state(host) != before
    effects = run_until_it_survives(cli, "down", "--name", "it-undo", "--host", "--yes")
    steps = ("kill -TERM", "apt-get purge", "umount -l", "sysctl -w", "rm -rf", "journal released package")
    assert [step for step in steps if not any(step in effect for effect in effects)] == []
    assert [step for step in ("while apt-get purge", "with apt-get purge") if not any(step in e for e in effects)] == []
    assert state(host) == before
    assert "host changes" not in cli.undo().out


def _empty_image(host: ScratchHost) -> str:
    host.run("sh", "-c", "tar c -T /dev/null | docker import - theirs")
    return "theirs"
