"""Real GPUs up to the container engine, on a scratch host: discovery, host preparation and its undo, NVIDIA's runtime.

No engine runs here. NVIDIA's own runtime and toolkit get the mounts that kind's nodes would have, and the tests check
their output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.config import LabSpec
from lab.host.nvidia.strategies import strategies
from lab.paths import assets
from lab.supply import Supply
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from lab.workloads import pods
from tests.integration.scratch import ScratchHost, scratch_host
from tests.integration.scratch.driver import GPUS, VERSION
from tests.integration.scratch.host import uuids_of

UUIDS = {gpu.uuid for gpu in GPUS}

DISCOVER = """
import json
from lab.host.machine import Machine
from lab.host.nvidia.discovery import discover_now
from lab.host.nvidia.strategies import choose_strategy, strategies
from lab.serialization import to_json
from lab.tools.process import HostRunner
facts = discover_now(HostRunner(), "docker")
choices = {name: choose_strategy(facts, name) for name in ("auto", *strategies())}
print(json.dumps({
    "facts": to_json(facts),
    "choices": {name: [c.strategy, c.why, list(c.changes)] for name, c in choices.items()},
}))
"""

FIX = """
import pathlib, sys
from lab.engine.journal import Journal
from lab.host.nvidia.cdi_fix import NvidiaCdi
from lab.host.nvidia.runtime_fix import NvidiaRuntime
from lab.tools.process import HostRunner
journal = Journal(pathlib.Path("host.jsonl"))
fixes = [NvidiaRuntime(), NvidiaCdi()]
for fix in fixes if VERB == "apply" else reversed(fixes):
    getattr(fix, VERB)(HostRunner(), journal)
"""

OCI = {
    "ociVersion": "1.0.2",
    "root": {"path": "rootfs"},
    "linux": {},
    "process": {"cwd": "/", "args": ["sh"], "env": []},
}


@pytest.fixture(scope="module")
def host() -> Iterator[ScratchHost]:
    run = HostRunner()
    supply = Supply(LabSpec(), run, ContainerEngine(run), engine_runs=False)
    with scratch_host(supply.binary("container-toolkit")) as made:
        yield made


def discovered(host: ScratchHost) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.python(DISCOVER))
    return found


def test_the_machine_is_discovered_as_it_is(host: ScratchHost) -> None:
    assert host.uuids() == UUIDS
    found = discovered(host)["facts"]
    assert found["nvml"]["driver"] == found["kernel"]["version"] == VERSION
    assert {gpu["uuid"]: (gpu["index"], gpu["minor"]) for gpu in found["nvml"]["gpus"]} == {
        gpu.uuid: (gpu.index, gpu.minor) for gpu in GPUS
    }
    assert found["kernel"]["modify"] is True
    assert found["kernel"]["minors"] == [0, 1, 2, 3]
    names = {Path(path).name for path in found["files"]["libraries"]}
    assert {f"libcuda.so.{VERSION}", f"libnvidia-ml.so.{VERSION}"} <= names
    # both sources name each of them
    assert {tuple(found["files"]["witnesses"][path]) for path in found["files"]["libraries"]} == {
        ("ldconfig", "toolkit")
    }
    assert found["files"]["programs"] == ["/usr/bin/nvidia-smi"]
    assert found["toolkit"]["modern"] is True
    assert found["toolkit"]["mounts"] is False


def test_what_goes_wrong_on_a_machine_is_named(host: ScratchHost) -> None:
    kernel = "/proc/driver/nvidia/version"
    host.run("sed", "-i", f"s/{VERSION}/998.1/", kernel)
    assert "the loaded driver is 998.1" in discovered(host)["choices"]["auto"][1]
    host.run("sed", "-i", f"s/998.1/{VERSION}/", kernel)
    host.run("mv", "/dev/nvidia-uvm", "/dev/away")
    assert "/dev/nvidia-uvm missing" in discovered(host)["choices"]["auto"][1]
    host.run("mv", "/dev/away", "/dev/nvidia-uvm")
    host.run("mv", "/usr/bin/nvidia-ctk", "/usr/bin/away")
    strategy, why, changes = discovered(host)["choices"]["auto"]
    host.run("mv", "/usr/bin/away", "/usr/bin/nvidia-ctk")
    assert (strategy, changes) == ("explicit-mounts", [])
    assert "not volume-mount: the NVIDIA container toolkit is not installed (nvidia-ctk" in why
    assert discovered(host)["choices"]["auto"][0] == "volume-mount"


def handed_over(host: ScratchHost, strategy: str, *uuids: str) -> dict[str, Any]:
    """Return the OCI config that NVIDIA's runtime makes for the mounts of a node with these GPUs."""
    request = strategies()[strategy].request
    mounts = [{"source": "/dev/null", "destination": request.format(uuid=uuid), "type": "bind"} for uuid in uuids]
    bundle = host.home / "bundle"
    (bundle / "rootfs").mkdir(parents=True, exist_ok=True)
    (bundle / "config.json").write_text(json.dumps({**OCI, "mounts": mounts}))
    program = bundle / "stub"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    config = bundle / "config.toml"
    config.write_text(host.run("cat", "/etc/nvidia-container-runtime/config.toml").out)
    host.run("sed", "-i", f's#^\\[nvidia-container-runtime\\]#&\\nruntimes = ["{program}"]#', config)
    script = f"mount --bind {config} /etc/nvidia-container-runtime/config.toml && exec nvidia-container-runtime create"
    host.run("unshare", "-m", "sh", "-c", f"{script} --bundle {bundle} x")
    found: dict[str, Any] = json.loads((bundle / "config.json").read_text())
    return found


@pytest.mark.parametrize("strategy", ["volume-mount", "cdi"])
def test_host_preparation_makes_requests_work_and_is_undone_byte_for_byte(host: ScratchHost, strategy: str) -> None:
    before = host.etc()
    assert discovered(host)["choices"][strategy][2] == (
        ["nvidia-runtime"] if strategy == "volume-mount" else ["nvidia-runtime", "nvidia-cdi"]
    )
    host.python(f"VERB = 'apply'\n{FIX}")
    # no engine runs here, so its configuration file decides
    assert [name for name, (_, _, changes) in discovered(host)["choices"].items() if changes] == []
    mine = GPUS[1:3]
    config = handed_over(host, strategy, *(gpu.uuid for gpu in mine))
    devices = {device["path"] for device in config["linux"]["devices"]}
    assert devices == {"/dev/nvidiactl", "/dev/nvidia-uvm", *(f"/dev/nvidia{gpu.minor}" for gpu in mine)}
    mounted = {Path(mount["destination"]).name for mount in config["mounts"]}
    assert {f"libcuda.so.{VERSION}", f"libnvidia-ml.so.{VERSION}", "nvidia-smi"} <= mounted
    hooks = {word for hook in config["hooks"]["createContainer"] for word in hook["args"]}
    assert {"create-symlinks", "update-ldcache", "disable-device-node-modification"} <= hooks
    host.python(f"VERB = 'undo'\n{FIX}")
    assert host.etc() == before


def test_a_node_keeps_its_own_gpus_only(host: ScratchHost) -> None:
    """Run the node's own script on the scratch host as on a node, in a copy of its /dev and /proc/driver."""
    mine = GPUS[2]
    script = assets("kind") / "gpu" / "nvidia" / "gpus.sh"
    config = assets("kind") / "gpu" / "nvidia" / "config.toml"
    node = f"""set -e
        cp -a /dev/nvidia* /run/ && cp -a /proc/driver /run/driver
        mount -t tmpfs dev /dev && mv /run/nvidia* /dev/ && mknod -m 666 /dev/null c 1 3
        mount --bind /run/driver /proc/driver
        mkdir -p /run/etc/cdi && mount --bind {config} /etc/nvidia-container-runtime/config.toml
        export LIST=/run/gpus SPEC=/run/etc/cdi/nvidia.json
        echo "{mine.minor} {mine.uuid}" >$LIST
        sh {script} && sh {script}
        ls /dev && nvidia-smi -L && cat /proc/driver/nvidia/params && cat $SPEC
        : >$LIST
        sh {script}
        ls /dev >&2; ls $SPEC >&2 || true"""
    done = host.run("unshare", "-m", "sh", "-c", node)
    listing, _, spec = done.out.partition("{")
    assert [word for word in listing.split() if word.startswith("nvidia")] == [
        "nvidia-uvm",
        f"nvidia{mine.minor}",
        "nvidiactl",
    ]
    assert mine.uuid in listing
    assert "ModifyDeviceFiles: 0" in listing
    names = [device["name"] for device in json.loads("{" + spec)["devices"]]
    assert names == ["0", mine.uuid, "all"]
    assert "VISIBLE_DEVICES" not in spec
    assert "nvidia2" not in done.err
    assert "nvidia.json" in done.err
    assert "No such file" in done.err


def test_a_container_gets_what_it_asks_for_and_no_device_nodes_by_itself(host: ScratchHost) -> None:
    """Run the chain of programs that Docker starts for a node: NVIDIA's runtime, its hooks, the OCI runtime."""
    mine = GPUS[1]
    bundle = host.home / "container"
    _root_file_system(bundle / "rootfs")
    host.python(f"VERB = 'apply'\n{FIX}")
    host.run("sh", "-c", f"cd {bundle} && runc spec")
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"] |= {"terminal": False, "args": ["sleep", "600"], "env": ["PATH=/usr/bin:/bin"]}
    spec["root"]["readonly"] = False
    spec["process"].pop("rlimits", None)
    request = strategies()["volume-mount"].request.format(uuid=mine.uuid)
    options = ["bind", "ro"]
    spec["mounts"].append({"source": "/dev/null", "destination": request, "type": "bind", "options": options})
    (bundle / "config.json").write_text(json.dumps(spec))
    try:
        host.run(
            "sh", "-c", f"nvidia-container-runtime create --bundle {bundle} gpu >/dev/null 2>{bundle}/log </dev/null"
        )
        host.run("runc", "start", "gpu")
        seen = host.run("runc", "exec", "gpu", "nvidia-smi", "-L").out
        inside = host.run("runc", "exec", "gpu", "sh", "-c", "ls /dev; cat /proc/driver/nvidia/params").out
    finally:
        host.run("runc", "delete", "--force", "gpu", code=None)
        host.python(f"VERB = 'undo'\n{FIX}")
    assert uuids_of(seen) == {mine.uuid}
    assert [name for name in inside.split() if name.startswith("nvidia")] == [
        "nvidia-uvm",
        f"nvidia{mine.minor}",
        "nvidiactl",
    ]
    assert "ModifyDeviceFiles: 0" in inside


def _root_file_system(folder: Path) -> None:
    """Unpack the suites' probe image: a shell and a C library."""
    run = HostRunner()
    archive = Supply(LabSpec(), run, ContainerEngine(run), engine_runs=False).image(pods.IMAGE)
    image = folder.with_name("image")
    for target in (image, folder):
        target.mkdir(parents=True)
    run.run(["tar", "-C", image, "-xf", archive])
    (entry,) = json.loads((image / "manifest.json").read_text())
    for layer in entry["Layers"]:
        run.run(["tar", "-C", folder, "-xf", image / layer])
