"""Checks of the container engine and of containers left over from earlier labs."""

from __future__ import annotations

from collections.abc import Iterator

from lab import paths
from lab.errors import CommandFailed
from lab.findings import Finding
from lab.host.check import CheckContext, check, fail, ok, skip, warn
from lab.host.docker_config import NVIDIA, WRAPPER
from lab.host.engines import NAMES, EngineFacts
from lab.host.nvidia.toolkit import calls_runtime
from lab.tools.container import ContainerEngine

OLDEST = {"docker": (20, 10), "podman": (4, 0), "nerdctl": (1, 7)}
"""Oldest versions with ``--cgroupns=private``, which kind uses for its nodes."""

CAPABLE = (23, 0)
"""First Docker version whose privileged containers request only capabilities that the daemon has."""

KIND_LABEL = "io.x-k8s.kind.cluster"
PREFIX = "kailab-"


def _installed(ctx: CheckContext) -> list[EngineFacts]:
    return [e for e in ctx.facts.engines if e.installed and ctx.needs.engine in ("auto", e.name)]


def _docker_installable(ctx: CheckContext) -> bool:
    return ctx.facts.os.debian and ctx.needs.engine in ("auto", "docker")


@check("engine", "container engine")
def engine(ctx: CheckContext) -> Iterator[Finding]:
    """Check that an engine that kind supports is installed."""
    names = ", ".join(NAMES) if ctx.needs.engine == "auto" else ctx.needs.engine
    running = ctx.facts.engine(ctx.needs.engine)
    if installed := _installed(ctx):
        yield ok(", ".join(e.name for e in installed))
    elif running is not None:
        yield ok(f"{running.name} on another host")
    elif _docker_installable(ctx):
        command = ctx.machine.shown("apt-get install -y --no-install-recommends docker.io")
        yield fail(f"not installed: {names}", command, "engine-install")
    else:
        yield fail(f"not installed: {names}", "install Docker, https://docs.docker.com/engine/install/")


@check("engine-running", "engine answers")
def running(ctx: CheckContext) -> Iterator[Finding]:
    """Check that the engine runs and this user may use it."""
    if (found := ctx.facts.engine(ctx.needs.engine)) is not None:
        yield ok(f"{found.name} {found.version}{' (rootless)' if found.rootless else ''}")
        return
    denied = next((e for e in ctx.facts.engines if e.denied and ctx.needs.engine in ("auto", e.name)), None)
    if denied is not None:
        yield fail(
            f"{denied.name} runs, but this user may not use it: {denied.why}",
            "sudo usermod -aG docker $USER; then log in again (or run 'newgrp docker' in this terminal)",
        )
        return
    installed = _installed(ctx)
    if installed and all(e.name != "docker" for e in installed):
        name, why = installed[0].name, installed[0].why
        yield fail(f"{name} does not answer: {why}", f"start {name}, then check it with '{name} info'")
    elif not installed and not _docker_installable(ctx):
        yield fail("no engine is running", "install an engine and start it")
    else:
        by = "systemctl start docker" if ctx.facts.systemd else "dockerd (detached: systemd is not running)"
        yield fail("no engine is running", ctx.machine.shown(by), "engine-start")


@check("engine-version", "engine version")
def version(ctx: CheckContext) -> Iterator[Finding]:
    """Check that the engine is new enough for kind."""
    found = ctx.facts.engine(ctx.needs.engine)
    if found is None:
        yield skip("no engine is running")
        return
    oldest = OLDEST[found.name]
    if found.release == (0, 0):
        yield warn(f"{found.name} reports the unknown version {found.version!r}", f"{found.name} info")
    elif found.release < oldest:
        text = f"{oldest[0]}.{oldest[1]:02d}"
        yield fail(f"{found.name} {found.version} is older than {text}", f"update {found.name} to {text} or newer")
    else:
        yield ok(f"{found.name} {found.version}")


@check("storage", "storage driver", advisory=True)
def storage(ctx: CheckContext) -> Iterator[Finding]:
    """Check that containers share image layers instead of copying them."""
    found = ctx.facts.engine(ctx.needs.engine)
    if found is None:
        yield skip("no engine is running")
    elif found.storage == "vfs":
        yield fail(
            "vfs copies every layer: each node takes gigabytes and minutes",
            f"move {found.root_dir} to ext4 or xfs and use the storage driver overlay2",
        )
    else:
        yield ok(found.storage or "not reported")


@check("capabilities", "capabilities for privileged containers")
def caps(ctx: CheckContext) -> Iterator[Finding]:
    """Check that the engine requests no capability that the machine does not have."""
    missing = ", ".join(ctx.facts.missing_capabilities)
    found = ctx.facts.engine(ctx.needs.engine)
    name = found.name if found else "docker"
    if not missing:
        yield ok("the bounding set is complete")
    elif name != "docker" or (found and found.release >= CAPABLE):
        yield ok(f"{missing} missing, which {name} {found.version if found else ''} does not request")
    elif found and found.default_runtime == NVIDIA and calls_runtime(ctx.machine, WRAPPER):
        yield ok(f"{missing} missing, dropped by the runtime {WRAPPER}, which {NVIDIA} calls")
    elif found and found.default_runtime == WRAPPER:
        yield ok(f"{missing} missing, dropped by the runtime {WRAPPER}")
    else:
        yield fail(
            f"{missing} missing on this machine, and Docker before 23.0 requests it: privileged containers fail"
            " with 'unable to apply caps: operation not permitted'",
            f"register {WRAPPER} as default runtime in /etc/docker/daemon.json ('kailab up --yes' does that)",
            "engine-runtime",
        )


@check("leftovers", "leftovers of earlier labs", advisory=True)
def leftovers(ctx: CheckContext) -> Iterator[Finding]:
    """Check for containers of labs without a state directory."""
    found = ctx.facts.engine(ctx.needs.engine)
    if found is None:
        yield skip("no engine is running")
        return
    try:
        nodes = ContainerEngine(ctx.run, found.name).containers(KIND_LABEL)
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
            f"{len(names)} containers of {cluster}, which has no state directory here (perhaps another user's)",
            f"{found.name} rm -f -v {' '.join(sorted(names))}",
        )
    if not orphans:
        yield ok("none")
