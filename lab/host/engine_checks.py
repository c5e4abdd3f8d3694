"""Checks of the container engine and of what earlier labs left in it."""

from __future__ import annotations

from collections.abc import Iterator

from lab import paths
from lab.errors import CommandFailed
from lab.findings import Finding
from lab.host.check import Look, check, fail, ok, skip, warn
from lab.host.engines import NAMES, EngineFacts
from lab.host.nvidia.engine_config import RUNTIME as NVIDIA
from lab.host.nvidia.toolkit import hands_over
from lab.tools.container import ContainerEngine

OLDEST = {"docker": (20, 10), "podman": (4, 0), "nerdctl": (1, 7)}
"""Oldest versions with ``--cgroupns=private``, which kind's nodes are made with."""

CAPABLE = (23, 0)
"""From this Docker on, privileged containers ask only for capabilities the daemon has itself."""

RUNTIME = "kailab-runc"
"""Name under which the lab's OCI runtime is registered."""

KIND_LABEL = "io.x-k8s.kind.cluster"
PREFIX = "kailab-"


def _installed(at: Look) -> list[EngineFacts]:
    return [e for e in at.facts.engines if e.installed and at.needs.engine in ("auto", e.name)]


@check("engine", "container engine")
def engine(at: Look) -> Iterator[Finding]:
    """Is there an engine that kind has a provider for?"""
    names = ", ".join(NAMES) if at.needs.engine == "auto" else at.needs.engine
    running = at.facts.engine(at.needs.engine)
    if installed := _installed(at):
        yield ok(", ".join(e.name for e in installed))
    elif running is not None:
        yield ok(f"{running.name}, served from elsewhere")
    elif at.facts.os.debian and at.needs.engine in ("auto", "docker"):
        command = at.machine.shown("apt-get install -y --no-install-recommends docker.io")
        yield fail(f"none of {names} is installed", command, "engine-install")
    else:
        yield fail(f"none of {names} is installed", "install Docker, https://docs.docker.com/engine/install/")


@check("engine-running", "engine answers")
def running(at: Look) -> Iterator[Finding]:
    """Does the engine run, and may this user talk to it?"""
    if (found := at.facts.engine(at.needs.engine)) is not None:
        yield ok(f"{found.name} {found.version}{' (rootless)' if found.rootless else ''}")
        return
    denied = next((e for e in at.facts.engines if e.denied and at.needs.engine in ("auto", e.name)), None)
    if denied is not None:
        yield fail(
            f"{denied.name} runs, but not for this user: {denied.why}",
            "sudo usermod -aG docker $USER, then log in again (or 'newgrp docker' in this terminal)",
        )
        return
    installed = [e.name for e in _installed(at)]
    if installed and "docker" not in installed:
        why = next(e.why for e in at.facts.engines if e.name == installed[0])
        yield fail(f"{installed[0]} does not answer: {why}", f"start it; {installed[0]} info")
        return
    if not installed and not (at.facts.os.debian and at.needs.engine in ("auto", "docker")):
        yield fail("no engine runs", "install and start one, see above")
        return
    by = "systemctl start docker" if at.facts.systemd else "dockerd (detached; no service manager runs here)"
    yield fail("no engine runs", at.machine.shown(by), "engine-start")


@check("engine-version", "engine version")
def version(at: Look) -> Iterator[Finding]:
    """Is the engine new enough for kind?"""
    found = at.facts.engine(at.needs.engine)
    if found is None:
        yield skip("no engine runs")
        return
    oldest = OLDEST[found.name]
    if found.release == (0, 0):
        yield warn(f"{found.name} says version {found.version!r}", f"{found.name} info")
    elif found.release < oldest:
        text = f"{oldest[0]}.{oldest[1]:02d}"
        yield fail(f"{found.name} {found.version} is older than {text}", f"update it to {text} or newer")
    else:
        yield ok(f"{found.name} {found.version}")


@check("storage", "storage driver", advisory=True)
def storage(at: Look) -> Iterator[Finding]:
    """Does the engine share layers between containers, or copy them?"""
    found = at.facts.engine(at.needs.engine)
    if found is None:
        yield skip("no engine runs")
    elif found.storage == "vfs":
        yield fail(
            "vfs copies every layer: each node costs gigabytes and minutes",
            f"let {found.root_dir} lie on ext4 or xfs and use the storage driver overlay2",
        )
    else:
        yield ok(found.storage or "not told")


@check("capabilities", "capabilities for privileged containers")
def caps(at: Look) -> Iterator[Finding]:
    """Does the engine ask for a capability that the machine does not have?"""
    missing = ", ".join(at.facts.missing_capabilities)
    found = at.facts.engine(at.needs.engine)
    name = found.name if found else "docker"
    if not missing:
        yield ok("nothing is missing from the bounding set")
    elif name != "docker" or (found and found.release >= CAPABLE):
        yield ok(f"without {missing}, which {name} {found.version if found else ''} does not ask for")
    elif found and found.default_runtime == NVIDIA and hands_over(at.machine, RUNTIME):
        yield ok(f"without {missing}, left out by the runtime {RUNTIME}, to which {NVIDIA} hands over")
    elif found and found.default_runtime == RUNTIME:
        yield ok(f"without {missing}, left out by the runtime {RUNTIME}")
    else:
        yield fail(
            f"this machine has no {missing}, and Docker before 23.0 asks for it: privileged containers fail"
            " with 'unable to apply caps: operation not permitted'",
            f"register {RUNTIME} as default runtime in /etc/docker/daemon.json ('lab up --yes' does it)",
            "engine-runtime",
        )


@check("leftovers", "leftovers of earlier labs", advisory=True)
def leftovers(at: Look) -> Iterator[Finding]:
    """Are there containers of a lab that has no state here any more?"""
    found = at.facts.engine(at.needs.engine)
    if found is None:
        yield skip("no engine runs")
        return
    try:
        nodes = ContainerEngine(at.run, found.name).containers(KIND_LABEL)
    except CommandFailed as error:
        yield warn(f"{found.name} does not list its containers: {error.what}", f"{found.name} ps -a")
        return
    orphans: dict[str, list[str]] = {}
    for node in nodes:
        cluster = node.labels.get(KIND_LABEL, "")
        if cluster.startswith(PREFIX) and not paths.LabPaths(cluster.removeprefix(PREFIX)).root.is_dir():
            orphans.setdefault(cluster, []).append(node.name)
    for cluster, names in sorted(orphans.items()):
        yield fail(
            f"{len(names)} containers of {cluster}, which has no state here (another user's, perhaps)",
            f"{found.name} rm -f -v {' '.join(sorted(names))}",
        )
    if not orphans:
        yield ok("none")
