"""Checks of the machine itself: cgroups, kernel parameters, room, tools, sources, GPU. Also the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from lab.findings import Finding
from lab.host import engine_checks, sources
from lab.host.check import CHECKS, HostNeeds, Look, check, fail, ok, warn
from lab.host.facts import HostFacts
from lab.host.machine import Machine
from lab.host.nvidia.doctor import findings as nvidia_findings
from lab.tools.go import MINIMUM
from lab.tools.process import Runner

__all__ = ["doctor", "engine_checks"]

SYSCTL_FLOOR = {"fs.inotify.max_user_instances": 512, "fs.inotify.max_user_watches": 524288}
"""Below these, nodes fail with "too many open files" (kind, known issues)."""

MEMORY_MIB = 3700
"""A machine sold as 4 GiB; a whole demo lab takes 2.2 GB."""

WARM_MIB, COLD_MIB = 4 * 1024, 15 * 1024
"""Room for a lab whose binaries and images are here, and for one that builds them all."""

V1_LAST = (1, 34)
"""Last Kubernetes whose kubelet starts on cgroup v1 without being told to."""


@check("cgroup", "cgroup version")
def cgroup(at: Look) -> Iterator[Finding]:
    """Are cgroups mounted, and of a version that the nodes' Kubernetes takes?"""
    found, wanted = at.facts.cgroup, at.needs.kubernetes
    if found.version == "none":
        yield fail(
            "no cgroup hierarchy is mounted",
            at.machine.shown("mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
            "cgroup-mounts",
        )
    elif found.version == "v1" and not found.named:
        yield fail(
            "cgroup v1 without systemd's own hierarchy, which the nodes' systemd needs",
            at.machine.shown("mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd"),
            "cgroup-mounts",
        )
    elif found.version == "v1" and wanted and tuple(map(int, wanted.split(".")[:2])) > V1_LAST:
        yield fail(
            f"cgroup v1, and the kubelet of Kubernetes {wanted} refuses it",
            "set cluster.kubernetes to 1.34 in the lab file, or boot with systemd.unified_cgroup_hierarchy=1",
        )
    elif found.version == "v1":
        yield ok("v1, good for Kubernetes up to 1.34")
    else:
        yield ok(found.version)


@check("inotify", "inotify limits")
def inotify(at: Look) -> Iterator[Finding]:
    """Are there enough inotify instances and watches for several nodes?"""
    low = {n: v for n in SYSCTL_FLOOR if (v := at.facts.sysctls.get(n, SYSCTL_FLOOR[n])) < SYSCTL_FLOOR[n]}
    if low:
        said = ", ".join(f"{name} is {value}, needs {SYSCTL_FLOOR[name]}" for name, value in low.items())
        pairs = " ".join(f"{name}={SYSCTL_FLOOR[name]}" for name in low)
        yield fail(said, at.machine.shown(f"sysctl -w {pairs}"), "sysctls")
    else:
        yield ok("enough")


@check("forwarding", "IPv4 forwarding")
def forwarding(at: Look) -> Iterator[Finding]:
    """Does the kernel forward between containers and the rest?"""
    if at.facts.sysctls.get("net.ipv4.ip_forward", 1) == 0:
        yield fail("net.ipv4.ip_forward is 0", at.machine.shown("sysctl -w net.ipv4.ip_forward=1"), "sysctls")
    else:
        yield ok("on")


@check("memory", "memory")
def memory(at: Look) -> Iterator[Finding]:
    """Is there memory for a lab?"""
    total, free = at.facts.memory_mib, at.facts.available_mib
    said = f"{total / 1024:.1f} GiB, {free / 1024:.1f} GiB of it available"
    if total < MEMORY_MIB:
        yield fail(f"{said}; a lab needs 4 GiB", "use a bigger machine, or try '--profile minimal'")
    elif free < MEMORY_MIB * 2 // 3:
        yield warn(f"{said}; a lab takes about 2.2 GiB", "stop what you do not need, or '--profile minimal'")
    else:
        yield ok(said)


@check("disk", "disk space")
def disk(at: Look) -> Iterator[Finding]:
    """Is there room where images, builds and state are kept, and may it be taken?"""
    for place in at.facts.disks:
        if not place.writable:
            yield fail(
                f"{place.what}: {place.path} cannot be written",
                f"KAILAB_{place.what.upper()}=/a/directory/of/yours, or have it given to you (chown -R)",
            )
            continue
        if place.what == "state":
            continue
        said = f"{place.what}: {place.free_mib / 1024:.1f} GiB free in {place.path}"
        clean = "docker system df, docker image prune" if place.what == "engine" else "KAILAB_CACHE=/a/bigger/disk"
        if place.free_mib < WARM_MIB:
            yield fail(f"{said}; a lab needs 4 GiB, 15 GiB the first time", clean)
        elif place.free_mib < COLD_MIB:
            yield warn(f"{said}; the first lab on a machine needs 15 GiB", clean)
        else:
            yield ok(said)


@check("sources", "sources", advisory=True)
def reachability(at: Look) -> Iterator[Finding]:
    """Do the places answer that binaries, images and charts can come from?"""
    reached = sorted({s.name for s, why in at.reach.items() if not why})
    if reached:
        yield ok(", ".join(reached))
    refused: dict[str, list[str]] = {}
    for source, why in at.reach.items():
        if why:
            refused.setdefault(why, []).append(source.name if source.kind == "registry" else source.host)
    for why, names in refused.items():
        yield fail(
            f"{', '.join(names)}: {why}",
            "nothing, if 'lab plan' finds all it needs elsewhere; else HTTPS_PROXY, supply.mirrors in the"
            " lab file, or a bundle made on a machine that has them ('lab bundle create')",
        )


@check("build-tools", "build tools", advisory=True)
def build_tools(at: Look) -> Iterator[Finding]:
    """Can the probe image be built here, and where no registry answers all the rest?"""
    missing: list[str] = []
    if at.reachable("go") or not at.reachable("registry"):  # else the probe alone is built, with Go's own library
        missing += [] if at.facts.compiler else ["gcc", "libc6-dev"]
        missing += [] if "debootstrap" in at.facts.tools else ["debootstrap"]
    go = at.facts.go
    if missing:
        command = at.machine.shown(f"apt-get install -y --no-install-recommends {' '.join(missing)}")
        where = at.facts.os.debian
        yield fail(f"not installed: {', '.join(missing)}", command, "build-tools" if where else "")
    if go is None or go < MINIMUM:
        said = "Go is not installed" if go is None else f"Go is {go[0]}.{go[1]}"
        need = f"{MINIMUM[0]}.{MINIMUM[1]}"
        newer = f"GOTOOLCHAIN=go{need}.0+auto" if go and go >= (1, 21) else ""
        yield fail(
            f"{said}; images and binaries are built with {need}",
            f"export {newer}: go fetches the newer toolchain through GOPROXY"
            if newer
            else f"install Go {need} or newer: https://go.dev/dl/ (your distribution's may be too old; Go"
            " from 1.21 on fetches a newer toolchain by itself with GOTOOLCHAIN=auto)",
        )
    if not missing and go is not None and go >= MINIMUM:
        tools = ["debootstrap"] if "debootstrap" in at.facts.tools else []
        yield ok(", ".join(filter(None, [f"Go {at.facts.tools['go'].version}", at.facts.compiler, *tools])))


@check("nvidia", "NVIDIA GPU")
def nvidia(at: Look) -> Iterator[Finding]:
    """Is there a GPU, and is it ready to be given to containers?"""
    yield from nvidia_findings(at, at.needs.strategy)


def doctor(
    facts: HostFacts,
    run: Runner,
    *,
    needs: HostNeeds | None = None,
    machine: Machine | None = None,
    probe: sources.Probe | None = None,
) -> tuple[Finding, ...]:
    """Judge the machine.

    Args:
        facts: from ``gather``.
        run: for the few questions that facts do not answer; nothing is changed.
        needs: what the lab to be made asks for.
        machine: where configuration is read.
        probe: asks one address; a fake in tests.

    Returns:
        All findings, in the order of the checks.
    """
    here = machine or Machine()

    def ask(url: str, timeout: float) -> str:
        return sources.ask(url, timeout, here.env)

    reach = sources.reach(sources.configured(run, here), probe or ask)
    at = Look(facts, run, here, needs or HostNeeds(), reach)
    with ThreadPoolExecutor(4, thread_name_prefix="doctor") as pool:
        return tuple(one for found in pool.map(lambda rule: rule.apply(at), CHECKS.values()) for one in found)
