"""Files of simulated GPUs: UUIDs, NVML config, CDI spec, and the tar that installs them in a node."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from lab.config import GpuSpec
from lab.config.gpu import ToolkitOptions
from lab.config.gpu_models import product_label
from lab.gpu.simulated.devices import gpu_uuid, gpus_of
from lab.gpu.simulated.node_files import (
    CDI_SPEC,
    NVML_CONFIG,
    PROGRAMS,
    RUNTIME_CONFIG,
    RUNTIME_LOG,
    USAGE,
    cdi_spec,
    files_of,
    library_path,
    nvml_config,
)
from lab.paths import assets

GPUS = gpus_of("demo", "w1", GpuSpec(per_node=2))
DIGEST = "0123456789abcdef" * 4


def test_gpu_uuids_are_stable_and_unique() -> None:
    assert gpu_uuid("demo", "w1", 0) == "GPU-60186bc5-5e5d-5386-bed8-4b74f6548b9d"
    uuids = {gpu_uuid(lab, node, i) for lab in ("a", "b") for node in ("n1", "n2") for i in range(4)}
    assert len(uuids) == 16
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in uuids)


def test_nvml_config_has_every_value() -> None:
    broken = replace(GPUS[1], used=512, xid=79, lost=True)
    lines = nvml_config("w1", [GPUS[0], broken]).splitlines()
    facts = "memory=40960 cc=8.0 pci=000000FF:{}:00.0 id=20B010DE subsys=134F10DE power=400"
    name = "name=NVIDIA A100-SXM4-40GB"
    assert [line for line in lines if not line.startswith("#")] == [
        "driver 580.65.06",
        "cuda 13.0",
        f"gpu index=0 minor=0 uuid={GPUS[0].uuid} {facts.format('01')} {name}",
        f"gpu index=1 minor=1 uuid={GPUS[1].uuid} {facts.format('02')} used=512 xid=79 health=lost {name}",
        "end",
    ]
    assert nvml_config("w1", GPUS).endswith("end\n"), "the library ignores a file without its last line"


def test_unknown_model_has_no_pci_ids() -> None:
    (gpu,) = gpus_of("demo", "w1", GpuSpec(per_node=1, model="Mine", memory=1000))
    line = nvml_config("w1", [gpu]).splitlines()[-2]
    assert line == f"gpu index=0 minor=0 uuid={gpu.uuid} memory=1000 cc=8.0 pci=000000FF:01:00.0 id=000010DE name=Mine"


def test_cdi_spec_names_gpus_by_index_and_uuid_and_all() -> None:
    spec = cdi_spec(GPUS, "/lib/nvml.so", "x86_64")
    assert spec["kind"] == "nvidia.com/gpu"
    nodes = {
        device["name"]: [node["path"] for node in device["containerEdits"]["deviceNodes"]] for device in spec["devices"]
    }
    assert nodes == {
        "0": ["/dev/nvidia0"],
        "1": ["/dev/nvidia1"],
        GPUS[0].uuid: ["/dev/nvidia0"],
        GPUS[1].uuid: ["/dev/nvidia1"],
        "all": ["/dev/nvidia0", "/dev/nvidia1"],
    }
    assert "NVIDIA_VISIBLE_DEVICES" not in json.dumps(spec), "a container must see which GPU it got"


@pytest.mark.parametrize(("arch", "multiarch"), [("x86_64", "x86_64-linux-gnu"), ("aarch64", "aarch64-linux-gnu")])
def test_containers_get_library_and_config_read_only(arch: str, multiarch: str) -> None:
    edits = cdi_spec(GPUS, "/lib/nvml.so", arch)["containerEdits"]
    mounts = {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]}
    assert mounts == {
        f"/usr/lib/{multiarch}/libnvidia-ml.so.1": "/lib/nvml.so",
        "/usr/lib64/libnvidia-ml.so.1": "/lib/nvml.so",
        "/usr/bin/nvidia-smi": "/lib/nvidia-smi",
        NVML_CONFIG: NVML_CONFIG,
        USAGE: USAGE,
    }
    assert all({"ro", "rbind"} <= set(mount["options"]) for mount in edits["mounts"])
    assert [node["path"] for node in edits["deviceNodes"]] == ["/dev/nvidiactl", "/dev/nvidia-uvm"]


def test_product_label_matches_gpu_feature_discovery() -> None:
    assert product_label("NVIDIA A100-SXM4-40GB") == "NVIDIA-A100-SXM4-40GB"
    assert product_label("NVIDIA H100  80GB (HBM3)/x") == "NVIDIA-H100-80GB-HBM3x"


def test_tar_holds_the_files_of_the_install_script(tmp_path: Path) -> None:
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_bytes(b"\x7fELF library")
    for name in PROGRAMS:
        library.with_name(name).write_bytes(name.encode())
    files = files_of("w1", GPUS, DIGEST, "x86_64")
    with tarfile.open(fileobj=io.BytesIO(files.payload(library))) as tar:
        content = {entry.name: _read(tar, entry) for entry in tar}
        script = content.pop("install.sh").decode()
    for name in content:
        assert re.search(rf"(?<![\w.-]){re.escape(name)}\b", script), f"install.sh never uses {name}"
    assert content["library-path"].decode().strip() == files.library == library_path(DIGEST)
    sums = (line.split() for line in content["SHA256SUMS"].decode().splitlines())
    assert {name: digest for digest, name in sums} == {
        name: hashlib.sha256(content[name]).hexdigest() for name in ("libnvidia-ml.so.1", "nvidia-smi", "gpu-usage")
    }
    assert content["nvml.conf"].decode() == files.texts[NVML_CONFIG]
    assert content["config.toml"].decode() == files.texts[RUNTIME_CONFIG]
    assert json.loads(content["cdi.json"])["containerEdits"]["mounts"][0]["hostPath"] == files.library


def test_install_script_writes_every_checked_file() -> None:
    files = files_of("w1", GPUS, DIGEST, "x86_64")
    script = (assets("kind") / "gpu" / "install.sh").read_text()
    units = re.search(r"for unit in (.*); do\n(.*?)\ndone", script, re.DOTALL)
    assert units is not None
    script = script.replace(units[0], "\n".join(units[2].replace("$unit", unit) for unit in units[1].split()))
    assert set(files.sums()) == set(files.texts)
    for path in files.texts:
        assert f"{path} 0" in script or f">{path}" in script, f"install.sh does not write {path}"
    for path, target in files.links.items():
        assert f'link {path} "$folder/{Path(target).name}"' in script
    assert CDI_SPEC in script.splitlines()[-1], "the CDI spec must come last, after its devices exist"


def test_runtime_config_selects_the_cdi_spec_of_the_lab() -> None:
    import tomllib

    config = tomllib.loads(files_of("w1", GPUS, DIGEST, "x86_64").texts[RUNTIME_CONFIG])
    runtime = config["nvidia-container-runtime"]
    assert runtime["mode"] == "cdi"
    assert str(Path(CDI_SPEC).parent) in runtime["modes"]["cdi"]["spec-dirs"]
    assert config["accept-nvidia-visible-devices-envvar-when-unprivileged"] is True


def test_toolkit_writes_a_log_only_if_the_lab_file_requests_it() -> None:
    import tomllib

    def runtime(log: str) -> dict[str, object]:
        options = ToolkitOptions.model_validate({"log": log})
        text = files_of("w1", GPUS, DIGEST, "x86_64", options).texts[RUNTIME_CONFIG]
        return dict(tomllib.loads(text)["nvidia-container-runtime"])

    assert "debug" not in runtime("none")
    assert runtime("debug") == {**runtime("none"), "log-level": "debug", "debug": RUNTIME_LOG}


def test_containerd_patch_adds_the_handler_to_the_config_of_kind() -> None:
    import tomllib

    text = (assets("kind") / "gpu" / "containerd-nvidia.toml").read_text()
    patch = tomllib.loads(text)
    assert "version" not in patch, "kind skips a patch of another version than the node's config"
    runtimes = patch["plugins"]["io.containerd.grpc.v1.cri"]["containerd"]["runtimes"]
    assert runtimes["nvidia"]["options"] == {"BinaryName": "/usr/bin/nvidia-container-runtime", "SystemdCgroup": True}


def _read(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    assert file is not None
    return file.read()
