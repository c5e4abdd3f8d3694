"""Checks of the machine itself (cgroups, kernel parameters, memory, disk, tools, sources, GPU), and the doctor."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from lab import sums
from lab.findings import Finding
from lab.host import engine_checks, sources
from lab.host.check import CHECKS, CheckContext, HostNeeds, check, fail, ok, warn
from lab.host.facts import HostFacts
from lab.host.machine import Machine
from lab.host.nvidia.doctor import findings as nvidia_findings
from lab.host.packages import build_packages
from lab.tools.go import MINIMUM
from lab.tools.process import Runner

__all__ = ["doctor", "engine_checks"]

SYSCTL_FLOOR = {"fs.inotify.max_user_instances": 512, "fs.inotify.max_user_watches": 524288}
"""Below these, nodes fail with "too many open files" (kind, known issues)."""

MEMORY_MIB = 3700
"""Available on a machine sold as 4 GiB; the demo lab uses 2.2 GB in all."""

WARM_MIB, COLD_MIB = 4 * 1024, 15 * 1024
"""Disk space for a lab with all binaries and images in the cache, and for one that builds them all."""

V1_LAST = (1, 34)
"""Last Kubernetes version with a kubelet that starts on cgroup v1 by default."""


@check("cgroup", "cgroup version")
def cgroup(ctx: CheckContext) -> Iterator[Finding]:
    """Check that cgroups are mounted, in a version that the nodes' Kubernetes supports."""
    found, wanted = ctx.facts.cgroup, ctx.needs.kubernetes
    if found.version == "none":
        yield fail(
            "no cgroup hierarchy is mounted",
            ctx.machine.shown("mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
            "cgroup-mounts",
        )
    elif found.version == "v1" and not found.named:
        yield fail(
            "cgroup v1 without the named hierarchy that systemd in the nodes needs",
            ctx.machine.shown("mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd"),
            "cgroup-mounts",
        )
    elif found.version == "v1" and wanted and tuple(map(int, wanted.split(".")[:2])) > V1_LAST:
        yield fail(
            f"cgroup v1, which the kubelet of Kubernetes {wanted} does not support",
            "set cluster.kubernetes to 1.34 in the lab file, or boot with systemd.unified_cgroup_hierarchy=1",
        )
    elif found.version == "v1":
        yield ok("v1, supported up to Kubernetes 1.34")
    else:
        yield ok(found.version)


@check("inotify", "inotify limits")
def inotify(ctx: CheckContext) -> Iterator[Finding]:
    """Check that the inotify limits suffice for several nodes."""
    low = {n: v for n in SYSCTL_FLOOR if (v := ctx.facts.sysctls.get(n, SYSCTL_FLOOR[n])) < SYSCTL_FLOOR[n]}
    if low:
        what = ", ".join(f"{name} is {value}, needs {SYSCTL_FLOOR[name]}" for name, value in low.items())
        pairs = " ".join(f"{name}={SYSCTL_FLOOR[name]}" for name in low)
        yield fail(what, ctx.machine.shown(f"sysctl -w {pairs}"), "sysctls")
    else:
        yield ok("sufficient")


@check("forwarding", "IPv4 forwarding")
def forwarding(ctx: CheckContext) -> Iterator[Finding]:
    """Check that the kernel forwards packets between containers and other networks."""
    if ctx.facts.sysctls.get("net.ipv4.ip_forward", 1) == 0:
        yield fail("net.ipv4.ip_forward is 0", ctx.machine.shown("sysctl -w net.ipv4.ip_forward=1"), "sysctls")
    else:
        yield ok("enabled")


@check("memory", "memory")
def memory(ctx: CheckContext) -> Iterator[Finding]:
    """Check that a lab fits into memory."""
    total, free = ctx.facts.memory_mib, ctx.facts.available_mib
    what = f"{total / 1024:.1f} GiB, {free / 1024:.1f} GiB available"
    if total < MEMORY_MIB:
        yield fail(f"{what}; a lab needs 4 GiB", "use a bigger machine, or try '--profile minimal'")
    elif free < MEMORY_MIB * 2 // 3:
        yield warn(f"{what}; a lab uses about 2.2 GiB", "stop other programs, or use '--profile minimal'")
    else:
        yield ok(what)


@check("disk", "disk space")
def disk(ctx: CheckContext) -> Iterator[Finding]:
    """Check that the directories of images, builds and state are writable and have enough space."""
    for place in ctx.facts.disks:
        if not place.writable:
            yield fail(
                f"{place.what}: {place.path} cannot be written",
                f"set KAILAB_{place.what.upper()} to a directory you can write, or chown this one",
            )
            continue
        if place.what == "state":
            continue
        what = f"{place.what}: {place.free_mib / 1024:.1f} GiB free in {place.path}"
        clean = "docker system df; docker image prune" if place.what == "engine" else "KAILAB_CACHE=/a/bigger/disk"
        if place.free_mib < WARM_MIB:
            yield fail(f"{what}; a lab needs 4 GiB, the first lab 15 GiB", clean)
        elif place.free_mib < COLD_MIB:
            yield warn(f"{what}; the first lab on a machine needs 15 GiB", clean)
        else:
            yield ok(what)


@check("cache", "cache", advisory=True)
def cache(_: CheckContext) -> Iterator[Finding]:
    """Check that what is in the cache has its recorded sums; content is read only where size or time changed."""
    count, wrong = sums.check_all()
    for path, why in wrong.items():
        yield warn(f"{path} is damaged: {why}", f"rm -r {shlex.quote(str(path))}; 'kailab up' recreates what it needs")
    if not wrong:
        yield ok(f"{count} entries with the recorded sizes and times ('kailab bundle verify' reads them)")


@check("sources", "sources", advisory=True)
def package_sources(ctx: CheckContext) -> Iterator[Finding]:
    """Check which sources of binaries, images and charts are reachable."""
    reached = sorted({source.name for source, why in ctx.reach.items() if not why})
    unset = [source.name for source in ctx.reach if not source.url]
    if reached or unset:
        yield ok("; not configured on this machine: ".join(filter(None, [", ".join(reached), ", ".join(unset)])))
    refused: dict[str, list[str]] = {}
    for source, why in ctx.reach.items():
        if why and source.url:
            refused.setdefault(why, []).append(source.name if source.kind == "registry" else source.host)
    for why, names in refused.items():
        yield fail(
            f"{', '.join(names)}: {why}",
            "if 'kailab plan' reports missing items, set HTTPS_PROXY or supply.mirrors in the lab file,"
            " or use a bundle made on another machine ('kailab bundle create')",
        )


@check("build-tools", "build tools", advisory=True)
def build_tools(ctx: CheckContext) -> Iterator[Finding]:
    """Check that the probe image can be built here, and everything else if no registry is reachable."""
    missing: list[str] = []
    if ctx.reachable("go") or not ctx.reachable("registry"):  # otherwise only the probe is built, with the Go library
        missing = build_packages(ctx.facts.compiler, ctx.facts.tools.get("debootstrap"), ctx.machine.root)
    go = ctx.facts.go
    if missing:
        command = ctx.machine.shown(f"apt-get install -y --no-install-recommends {' '.join(missing)}")
        yield fail(f"not installed: {', '.join(missing)}", command, "build-tools" if ctx.facts.os.debian else "")
    if go is None or go < MINIMUM:
        found = "Go is not installed" if go is None else f"Go {go[0]}.{go[1]} is installed"
        need = f"{MINIMUM[0]}.{MINIMUM[1]}"
        yield fail(
            f"{found}; builds of images and binaries need Go {need}",
            f"export GOTOOLCHAIN=go{need}.0+auto; go then downloads that toolchain through GOPROXY"
            if go and go >= (1, 21)
            else f"install Go {need} or newer from https://go.dev/dl/ (your distribution's may be too old; Go"
            " 1.21 or newer downloads newer toolchains by itself with GOTOOLCHAIN=auto)",
        )
    elif not missing:
        tools = ["debootstrap"] if "debootstrap" in ctx.facts.tools else []
        yield ok(", ".join(filter(None, [f"Go {ctx.facts.tools['go'].version}", ctx.facts.compiler, *tools])))


@check("nvidia", "NVIDIA GPU")
def nvidia(ctx: CheckContext) -> Iterator[Finding]:
    """Check that containers can use the machine's GPUs."""
    yield from nvidia_findings(ctx, ctx.needs.strategy)


def doctor(
    facts: HostFacts,
    run: Runner,
    *,
    needs: HostNeeds | None = None,
    machine: Machine | None = None,
    probe: sources.Probe | None = None,
    advice: bool = True,
) -> tuple[Finding, ...]:
    """Run all checks without changing anything, and return their findings in order.

    Args:
        facts: about the machine.
        run: queries the machine.
        needs: of the planned lab.
        machine: where files are.
        probe: a fake in tests.
        advice: also run the advisory checks, which probe the network and query every lab on the machine.
    """
    here = machine or Machine()

    def ask(url: str, timeout: float) -> str:
        return sources.ask(url, timeout, here.env)

    reach = sources.reach(sources.configured(run, here), probe or ask) if advice else {}
    ctx = CheckContext(facts, run, here, needs or HostNeeds(), reach)
    with ThreadPoolExecutor(4, thread_name_prefix="doctor") as pool:
        rules = [rule for rule in CHECKS.values() if advice or not rule.advisory]
        return tuple(one for found in pool.map(lambda rule: rule.apply(ctx), rules) for one in found)
