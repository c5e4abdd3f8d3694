"""Installing packages, and removing only those."""

from __future__ import annotations

import pytest

from lab.engine.journal import Journal
from lab.errors import CommandFailed, HostNotReady, Leftovers
from lab.host.packages import BuildTools, InstallEngine
from tests.support.host_world import HostWorld

SIMULATED = (
    "NOTE: This is only a simulation!\n"
    "Inst runc (1.1.5 Debian:12 [amd64])\n"
    "Inst libc6 [2.36-9] (2.36-10 Debian:12 [amd64])\n"
    "Inst docker.io (20.10.24 Debian:12 [amd64])\n"
    "Conf docker.io (20.10.24 Debian:12 [amd64])\n"
)


def apt(world: HostWorld, *, install_code: int = 0) -> None:
    world.runner.has("apt-get")
    world.runner.handle("dpkg --configure -a")
    world.runner.handle("apt-get update")
    world.runner.handle("apt-get install -s", out=SIMULATED)
    world.runner.handle("apt-get install -yq", code=install_code)


def test_only_new_packages_are_recorded(world: HostWorld, journal: Journal) -> None:
    apt(world)
    world.runner.handle("apt-cache policy docker-cli", out="docker-cli:\n  Candidate: (none)\n")
    InstallEngine(world.machine).apply(world.runner, journal)
    assert [record.name for record in journal.owned("package")] == ["runc", "docker.io"]
    assert "/var/lib/docker" in {record.name for record in journal.owned("directory")}
    assert world.runner.lines[-1].endswith("docker.io")
    installed = next(call for call in world.runner.calls if "-yq" in call.argv)
    assert installed.env == {"DEBIAN_FRONTEND": "noninteractive"}


def test_packages_are_recorded_before_apt_fails(
    world: HostWorld, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    apt(world, install_code=100)
    world.runner.has("docker")
    with pytest.raises(CommandFailed):
        InstallEngine(world.machine).apply(world.runner, journal)
    assert [record.name for record in journal.owned("package")] == ["runc", "docker.io"]


def test_docker_client_and_apparmor_are_installed_where_needed(world: HostWorld, journal: Journal) -> None:
    apt(world)
    world.put("/sys/module/apparmor/parameters/enabled", "Y\n")
    world.runner.handle("apt-cache policy docker-cli", out="docker-cli:\n  Candidate: 26.1.5+dfsg1-9\n")
    InstallEngine(world.machine).apply(world.runner, journal)
    assert world.runner.lines[-1].endswith("docker.io apparmor docker-cli")


def test_installed_docker_is_not_changed(world: HostWorld, journal: Journal) -> None:
    world.runner.has("docker")
    world.put("/usr/sbin/dockerd", "")
    InstallEngine(world.machine).apply(world.runner, journal)
    assert (world.runner.lines, journal.owned()) == ([], ())


def test_other_distributions_are_refused(world: HostWorld, journal: Journal) -> None:
    world.put("/etc/os-release", "ID=fedora\n")
    with pytest.raises(HostNotReady, match="neither Debian nor Ubuntu"):
        BuildTools(world.machine).apply(world.runner, journal)


@pytest.mark.usefixtures("nothing_else")
def test_undo_removes_only_installed_packages_and_docker_data(world: HostWorld, journal: Journal) -> None:
    for name in ("runc", "docker.io", "tini"):
        journal.owns("package", name, "engine-install")
    journal.owns("package", "gcc", "build-tools")
    journal.owns("directory", "/var/lib/docker", "engine-install")
    journal.owns("group", "docker", "engine-install")
    world.runner.handle("dpkg --configure -a")
    world.runner.handle(["dpkg-query", "-W"], out="runc installed\ndocker.io installed\ntini not-installed\n")
    world.runner.handle("dpkg --verify")
    world.runner.handle("apt-get purge -s docker.io runc", out="Purg docker.io [20]\nPurg runc [1]\n", exact=True)
    world.runner.handle("apt-get purge -yq docker.io runc", exact=True)
    world.runner.handle("rm -rf --one-file-system /var/lib/docker", exact=True)
    world.runner.handle("groupdel docker", exact=True)
    messages = InstallEngine(world.machine).undo(world.runner, journal)
    assert messages == ["packages removed: docker.io, runc"]
    assert [record.name for record in journal.owned()] == ["gcc"]


@pytest.mark.usefixtures("nothing_else")
def test_data_older_than_the_lab_is_not_purged(world: HostWorld, journal: Journal) -> None:
    journal.owns("package", "docker.io", "engine-install")
    world.runner.handle("dpkg --configure -a")
    world.runner.handle(["dpkg-query", "-W"], out="docker.io installed\n")
    world.runner.handle("dpkg --verify")
    world.runner.handle("apt-get purge -s docker.io", out="Remv docker.io [20]\n")
    world.runner.handle("apt-get remove -yq docker.io", exact=True)
    InstallEngine(world.machine).undo(world.runner, journal)


def test_packages_needed_by_others_are_kept(world: HostWorld, journal: Journal) -> None:
    journal.owns("package", "gcc", "build-tools")
    world.runner.handle("dpkg --configure -a")
    world.runner.handle(["dpkg-query", "-W"], out="gcc installed\ng++ installed\n")
    world.runner.handle("apt-get purge -s gcc", out="Purg g++ [12]\nPurg gcc [12]\n")
    with pytest.raises(Leftovers, match=r"would also remove g\+\+"):
        BuildTools(world.machine).undo(world.runner, journal)
    assert journal.owned("package")


def test_docker_in_use_stays_installed(world: HostWorld, journal: Journal) -> None:
    journal.owns("package", "docker.io", "engine-install")
    world.runner.handle("find /var/lib/docker/containers", out="/var/lib/docker/containers/abc\n", times=1)
    world.runner.handle("find /var/lib/docker/containers")
    world.runner.handle("find /var/lib/docker/volumes")
    world.runner.handle("find /var/lib/docker/image")
    world.runner.handle("find /var/lib/containerd/io.containerd.content.v1.content/blobs")
    world.runner.handle("dpkg --verify")
    with pytest.raises(Leftovers) as caught:
        InstallEngine(world.machine).undo(world.runner, journal)
    assert caught.value.evidence == ("container abc",)
    world.docker_runs(77)
    with pytest.raises(Leftovers, match="process 77"):
        InstallEngine(world.machine).undo(world.runner, journal)


def test_build_tools_install_only_what_is_missing(world: HostWorld, journal: Journal) -> None:
    apt(world)
    world.runner.has("clang")
    BuildTools(world.machine).apply(world.runner, journal)
    assert world.runner.lines[-1].endswith(" --no-install-recommends debootstrap")
    world.runner.has("debootstrap")
    keys = world.machine.path("/usr/share/keyrings/debian-archive-keyring.gpg")
    keys.unlink()
    BuildTools(world.machine).apply(world.runner, journal)
    assert world.runner.lines[-1].endswith(" --no-install-recommends debian-archive-keyring")
    keys.with_suffix(".pgp").touch()
    ran = len(world.runner.lines)
    BuildTools(world.machine).apply(world.runner, journal)
    assert len(world.runner.lines) == ran


def test_containers_in_another_data_root_are_named(world: HostWorld, journal: Journal) -> None:
    """Somebody has moved Docker's data, and has stopped Docker."""
    journal.owns("package", "docker.io", "engine-install")
    world.put("/etc/docker/daemon.json", '{"data-root": "/data/docker"}')
    world.runner.handle("find /data/docker/containers", out="/data/docker/containers/abc\n")
    world.runner.handle("find /data/docker/volumes")
    world.runner.handle("find /data/docker/image", out='{"mine":{"mine:1":"sha256:a"}}')
    world.runner.handle("find /var/lib/containerd/io.containerd.content.v1.content/blobs")
    world.runner.handle("dpkg --verify")
    with pytest.raises(Leftovers) as caught:
        InstallEngine(world.machine).undo(world.runner, journal)
    assert caught.value.evidence == ("container abc", "image mine:1")


@pytest.mark.usefixtures("no_residents")
def test_containers_and_images_of_containerd_are_named(world: HostWorld, journal: Journal) -> None:
    """Those of ``ctr`` and nerdctl, which Docker does not show."""
    journal.owns("directory", "/var/lib/containerd", "engine-install")
    socket = "/run/containerd/containerd.sock"
    world.put(socket, "")
    world.runner.has("ctr")
    ctr = f"ctr --address {socket}"
    world.runner.handle("find /var/lib/docker/image")
    world.runner.handle(f"{ctr} namespaces ls -q", out="moby\ndefault\n", exact=True)
    world.runner.handle(f"{ctr} --namespace moby containers ls -q", out="1\n")
    world.runner.handle(f"{ctr} --namespace moby images ls -q")
    world.runner.handle(f"{ctr} --namespace default containers ls -q", out="web\n")
    world.runner.handle(f"{ctr} --namespace default images ls -q", out="docker.io/library/nginx:1\n")
    with pytest.raises(Leftovers) as caught:
        InstallEngine(world.machine).undo(world.runner, journal)
    assert caught.value.evidence == (
        "containerd's container web in namespace default",
        "containerd's image docker.io/library/nginx:1 in namespace default",
    )


@pytest.mark.usefixtures("no_residents")
def test_content_of_a_containerd_that_does_not_run_is_named(world: HostWorld, journal: Journal) -> None:
    journal.owns("directory", "/var/lib/containerd", "engine-install")
    world.runner.handle("find /var/lib/docker/image", out='{"mine":{"mine:1":"sha256:a"}}')
    world.runner.handle(
        "find /var/lib/containerd/io.containerd.content.v1.content/blobs", out="/var/lib/containerd/blobs/sha256/a\n"
    )
    with pytest.raises(Leftovers) as caught:
        InstallEngine(world.machine).undo(world.runner, journal)
    assert caught.value.evidence == ("image mine:1", "images or containers of containerd, which is not running")


@pytest.mark.usefixtures("nothing_else")
def test_files_of_an_administrator_are_kept_and_named(world: HostWorld, journal: Journal) -> None:
    for path in ("/etc/docker/key.json", "/etc/docker"):
        journal.owns("directory", path, "engine-install")
    world.put("/etc/docker/certs.d/ca.crt", "mine")
    world.runner.handle("rm -rf --one-file-system /etc/docker/key.json", exact=True)
    world.runner.handle("find /etc/docker -depth -type d -empty -delete", exact=True)
    messages = InstallEngine(world.machine).undo(world.runner, journal)
    assert "/etc/docker kept: it has" in messages[0]
    assert "certs.d/ca.crt, which the lab did not write" in messages[0]
    assert journal.owned() == ()


@pytest.mark.usefixtures("nothing_else")
def test_data_of_another_docker_is_kept(world: HostWorld, journal: Journal) -> None:
    """Somebody has installed docker-ce instead of the lab's docker.io."""
    journal.owns("directory", "/var/lib/docker", "engine-install")
    world.put("/usr/bin/dockerd", "")
    with pytest.raises(Leftovers, match="another dockerd is installed"):
        InstallEngine(world.machine).undo(world.runner, journal)
    assert journal.owned()
