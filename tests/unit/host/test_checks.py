"""The doctor's checks: severity and fix for each set of facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lab import paths
from lab.findings import Finding, Rule
from lab.host import sources
from lab.host.check import CHECKS, CheckContext, HostNeeds, fail
from lab.host.checks import doctor
from lab.host.engines import EngineFacts
from lab.host.facts import CgroupFacts, DiskFacts, HostFacts, OsFacts, ToolFacts
from lab.host.fixes import all_fixes, build_fixes, needed_fixes
from lab.host.nvml import GpuDevice, Nvml
from lab.serialization import to_json
from tests.support.host_world import HostWorld

DOCKER = EngineFacts(
    "docker",
    installed=True,
    running=True,
    version="28.2.2",
    storage="overlay2",
    cgroup_driver="systemd",
    cgroup_version="2",
    default_runtime="runc",
    root_dir="/var/lib/docker",
)
OLD = replace(DOCKER, version="20.10.24+dfsg1")
STOPPED = EngineFacts("docker", installed=True, why="Cannot connect to the Docker daemon")
GOOD = HostFacts(
    os=OsFacts("debian", "12", "bookworm", "Debian 12"),
    memory_mib=16000,
    available_mib=12000,
    disks=(DiskFacts("engine", "/var/lib/docker", 60000), DiskFacts("cache", "/c", 60000)),
    cgroup=CgroupFacts("v2", named=True),
    engines=(DOCKER,),
    compiler="/usr/bin/gcc",
    go=(1, 26),
    root=True,
    sysctls={"fs.inotify.max_user_instances": 512, "fs.inotify.max_user_watches": 524288, "net.ipv4.ip_forward": 1},
    tools={"go": ToolFacts("/usr/bin/go", "1.26.8"), "debootstrap": ToolFacts("/usr/sbin/debootstrap")},
)
GPU = Nvml("580.65", "13.0", (GpuDevice(0, 0, "GPU-1", "NVIDIA L4", 24576),))


def check(world: HostWorld, name: str, facts: HostFacts, needs: HostNeeds | None = None, **reach: str) -> list[Finding]:
    reached = {sources.PackageSource(kind, kind, f"https://{kind}.example/"): why for kind, why in reach.items()}
    return list(CHECKS[name].apply(CheckContext(facts, world.runner, world.machine, needs or HostNeeds(), reached)))


def changed(**changes: Any) -> HostFacts:
    return replace(GOOD, **changes)


CASES = [
    ("engine", GOOD, "ok", ""),
    ("engine", changed(engines=(replace(DOCKER, installed=False),)), "ok", ""),
    ("engine", changed(engines=()), "error", "engine-install"),
    ("engine", changed(engines=(), os=OsFacts("fedora")), "error", ""),
    ("engine-running", GOOD, "ok", ""),
    ("engine-running", changed(engines=(STOPPED,)), "error", "engine-start"),
    ("engine-running", changed(engines=()), "error", "engine-start"),
    ("engine-running", changed(engines=(), os=OsFacts("fedora")), "error", ""),
    ("engine-running", changed(engines=(replace(STOPPED, denied=True),)), "error", ""),
    ("engine-running", changed(engines=(EngineFacts("podman", installed=True, why="broken"),)), "error", ""),
    ("engine-version", GOOD, "ok", ""),
    ("engine-version", changed(engines=()), "skipped", ""),
    ("engine-version", changed(engines=(replace(DOCKER, version="19.03.5"),)), "error", ""),
    ("engine-version", changed(engines=(replace(DOCKER, version="dev"),)), "warning", ""),
    ("storage", GOOD, "ok", ""),
    ("storage", changed(engines=(replace(DOCKER, storage="vfs"),)), "warning", ""),
    ("storage", changed(engines=()), "skipped", ""),
    ("capabilities", GOOD, "ok", ""),
    ("capabilities", changed(engines=(OLD,)), "ok", ""),
    ("capabilities", changed(missing_capabilities=("CAP_SYS_RESOURCE",)), "ok", ""),
    ("capabilities", changed(missing_capabilities=("CAP_BPF",), engines=(OLD,)), "error", "engine-runtime"),
    ("capabilities", changed(missing_capabilities=("CAP_BPF",), engines=()), "error", "engine-runtime"),
    (
        "capabilities",
        changed(missing_capabilities=("CAP_BPF",), engines=(replace(OLD, default_runtime="kailab-runc"),)),
        "ok",
        "",
    ),
    ("cgroup", GOOD, "ok", ""),
    ("cgroup", changed(cgroup=CgroupFacts("none")), "error", "cgroup-mounts"),
    ("cgroup", changed(cgroup=CgroupFacts("v1", named=False)), "error", "cgroup-mounts"),
    ("cgroup", changed(cgroup=CgroupFacts("v1", named=True)), "ok", ""),
    ("inotify", GOOD, "ok", ""),
    ("inotify", changed(sysctls={"fs.inotify.max_user_instances": 128}), "error", "sysctls"),
    ("inotify", changed(sysctls={}), "ok", ""),
    ("forwarding", GOOD, "ok", ""),
    ("forwarding", changed(sysctls={"net.ipv4.ip_forward": 0}), "error", "sysctls"),
    ("memory", GOOD, "ok", ""),
    ("memory", changed(memory_mib=3699), "error", ""),
    ("memory", changed(memory_mib=3700, available_mib=3000), "ok", ""),
    ("memory", changed(available_mib=1500), "warning", ""),
    ("disk", GOOD, "ok", ""),
    ("disk", changed(disks=(DiskFacts("cache", "/c", 4095),)), "error", ""),
    ("disk", changed(disks=(DiskFacts("state", "/s", 60000, writable=False),)), "error", ""),
    ("disk", changed(disks=(DiskFacts("cache", "/c", 4096),)), "warning", ""),
    ("nvidia", GOOD, "skipped", ""),
]


@pytest.mark.parametrize(("name", "facts", "level", "fix_id"), CASES)
def test_severity_and_fix(world: HostWorld, name: str, facts: HostFacts, level: str, fix_id: str) -> None:
    first = check(world, name, facts)[0]
    assert (first.severity, first.fix_id) == (level, fix_id), first
    assert bool(first.next) == (level in ("error", "warning")), "only a failed check names a next action"


def test_every_fix_id_names_a_fix() -> None:
    known = {fix.id for fix in all_fixes()}
    assert {case[3] for case in CASES} - {""} <= known


@pytest.mark.parametrize(("kubernetes", "level"), [("1.34.4", "ok"), ("1.35.0", "error"), ("1.33.1", "ok")])
def test_cgroup_v1_support_depends_on_kubernetes(world: HostWorld, kubernetes: str, level: str) -> None:
    found = check(world, "cgroup", changed(cgroup=CgroupFacts("v1", named=True)), HostNeeds(kubernetes))
    assert [finding.severity for finding in found] == [level]


def test_fix_uses_systemd_where_it_runs(world: HostWorld) -> None:
    assert "dockerd" in check(world, "engine-running", changed(engines=(STOPPED,)))[0].next
    found = check(world, "engine-running", changed(engines=(STOPPED,), systemd=True))
    assert found[0].next == "systemctl start docker"


def test_engine_other_than_the_configured_one_is_ignored(world: HostWorld) -> None:
    found = check(world, "engine", GOOD, HostNeeds(engine="podman"))[0]
    assert (found.severity, found.fix_id) == ("error", "")


def test_unreachable_sources_are_named_with_the_reason(world: HostWorld) -> None:
    found = check(world, "sources", GOOD, go="", debian="refused", pypi="refused")
    assert [(finding.severity, finding.what) for finding in found] == [
        ("ok", "go"),
        ("warning", "debian.example, pypi.example: refused"),
    ]


def test_sources_without_configuration_are_named(world: HostWorld) -> None:
    unset = sources.reach([sources.PackageSource("go", "Go module proxy", "")], lambda url, timeout: "")
    reach = {sources.PackageSource("registry", "docker.io", "https://d.example/"): "", **unset}
    found = CHECKS["sources"].apply(CheckContext(GOOD, world.runner, world.machine, HostNeeds(), reach))
    assert [(one.severity, one.what) for one in found] == [
        ("ok", "docker.io; not configured on this machine: Go module proxy")
    ]


@pytest.mark.parametrize(
    ("facts", "reach", "levels", "fix_id"),
    [
        (GOOD, {}, ["ok"], ""),
        (changed(compiler=""), {}, ["warning"], "build-tools"),
        (changed(compiler="", os=OsFacts("fedora")), {}, ["warning"], ""),
        (changed(go=None, tools={}), {}, ["warning", "warning"], "build-tools"),
        (changed(go=(1, 24)), {}, ["warning"], ""),
        (changed(go=None), {"registry": "", "go": "refused"}, ["warning"], ""),
        (changed(compiler=""), {"registry": "", "go": "refused"}, ["ok"], ""),
    ],
)
def test_severities_of_build_tools(
    world: HostWorld, facts: HostFacts, reach: dict[str, str], levels: list[str], fix_id: str
) -> None:
    found = check(world, "build-tools", facts, **reach)
    assert [finding.severity for finding in found] == levels
    assert found[0].fix_id == fix_id


def test_debian_keys_belong_to_the_build_tools(world: HostWorld) -> None:
    world.machine.path("/usr/share/keyrings/debian-archive-keyring.gpg").rename(world.root / "elsewhere")
    found = check(world, "build-tools", GOOD)[0]
    assert (found.fix_id, found.what) == ("build-tools", "not installed: debian-archive-keyring")


def test_next_action_for_an_old_go_depends_on_its_version(world: HostWorld) -> None:
    assert "GOTOOLCHAIN" in check(world, "build-tools", changed(go=(1, 24)))[0].next
    assert "install Go 1.26" in check(world, "build-tools", changed(go=(1, 19)))[0].next


@pytest.mark.parametrize(
    ("changes", "needs", "levels"),
    [
        ({}, HostNeeds(), ["skipped"]),
        ({"gpu": GPU}, HostNeeds(gpu="simulated"), ["skipped"]),
        ({}, HostNeeds(gpu="nvidia"), ["error"]),
    ],
)
def test_severities_of_nvidia(world: HostWorld, changes: dict[str, Any], needs: HostNeeds, levels: list[str]) -> None:
    assert [finding.severity for finding in check(world, "nvidia", changed(**changes), needs)] == levels


def test_containers_of_labs_without_state_are_leftovers(world: HostWorld) -> None:
    paths.LabPaths("alive").root.mkdir(parents=True)
    labels = {"c1": "kailab-alive", "c2": "kailab-dead", "c3": "someone-elses"}
    world.runner.handle("docker ps -aq --no-trunc --filter label=io.x-k8s.kind.cluster", out="c1\nc2\nc3\n")
    world.runner.containers(
        lambda name: {
            "Name": f"/{name}",
            "Id": name,
            "State": {"Status": "running"},
            "Config": {"Labels": {"io.x-k8s.kind.cluster": labels[name]}},
        }
    )
    found = check(world, "leftovers", GOOD)
    assert [(finding.severity, finding.next) for finding in found] == [("warning", "docker rm -f -v c2")]


def test_machine_without_leftovers_is_ok(world: HostWorld) -> None:
    world.runner.handle("docker ps -aq --no-trunc --filter label=io.x-k8s.kind.cluster")
    assert [finding.severity for finding in check(world, "leftovers", GOOD)] == ["ok"]


def test_doctor_runs_every_check_once_in_order(world: HostWorld) -> None:
    world.runner.handle("docker ps -aq --no-trunc --filter label=io.x-k8s.kind.cluster", times=1)
    probed: list[str] = []

    def probe(url: str, timeout: float) -> str:
        probed.append(url)
        return "refused"

    found = doctor(GOOD, world.runner, machine=world.machine, probe=probe)
    assert list(dict.fromkeys(finding.rule for finding in found)) == list(CHECKS)
    assert sorted(probed) == sorted(sources.REGISTRIES.values())
    assert to_json(found[0])["rule"] == "engine"
    assert needed_fixes(found) == ()


def test_needed_fixes_are_unique_and_in_order_of_application() -> None:
    wanted = ("engine-start", "sysctls", "engine-install", "sysctls", "engine-runtime")
    findings = [Finding("", fix_id=name) for name in wanted]
    findings.append(Finding("", severity="ok", fix_id="cgroup-mounts"))
    found = [fix.id for fix in needed_fixes(findings)]
    assert found == ["sysctls", "engine-install", "engine-runtime", "engine-start"]


def test_advisory_check_never_fails(world: HostWorld) -> None:
    def broken(ctx: CheckContext) -> Iterator[Finding]:
        yield fail("broken", "repair it", "sysctls")

    ctx = CheckContext(GOOD, world.runner, world.machine)
    assert Rule("x", "x", broken, advisory=True).apply(ctx)[0].severity == "warning"
    assert Rule("x", "x", broken).apply(ctx)[0].severity == "error"


def test_doctor_without_advice_leaves_the_network_and_other_labs_alone(world: HostWorld) -> None:
    def probe(url: str, timeout: float) -> str:
        raise AssertionError(url)

    found = doctor(GOOD, world.runner, machine=world.machine, probe=probe, advice=False)
    advisory = {rule.id for rule in CHECKS.values() if rule.advisory}
    assert {"sources", "leftovers", "build-tools"} <= advisory
    assert list(dict.fromkeys(finding.rule for finding in found)) == [name for name in CHECKS if name not in advisory]


def test_build_needs_a_compiler_debootstrap_and_debian_keys(world: HostWorld) -> None:
    def fixes(facts: HostFacts) -> list[str]:
        return [fix.id for fix in build_fixes(facts, world.machine)]

    assert fixes(GOOD) == []
    assert fixes(changed(compiler="")) == fixes(changed(tools={})) == ["build-tools"]
    assert fixes(changed(compiler="", os=OsFacts("fedora"))) == []
    world.machine.path("/usr/share/keyrings/debian-archive-keyring.gpg").unlink()
    assert fixes(GOOD) == ["build-tools"]
