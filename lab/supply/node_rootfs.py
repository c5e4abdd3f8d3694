"""Makes a kind node image from Debian packages, kind's base files and Kubernetes built from Go modules.

It replaces kind's images/base/Dockerfile and ``kind build node-image`` (kind v0.33.0) where no registry is available.
The image works like kindest/node, but has no kindnet and no local-path provisioner; the lab adds its own pod network
and a host-path StorageClass.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.paths import assets
from lab.sums import digest
from lab.supply import gomod
from lab.supply.archive import Layer, layer_from_files, write_image
from lab.supply.cache import Progress, scratch
from lab.supply.catalogue import Catalogue, ImageRow
from lab.supply.rootfs import rootfs
from lab.tools.go import Go
from lab.tools.process import Runner

_NODE_PROGRAMS = ("kubeadm", "kubelet", "kubectl")
_ENABLED = ("containerd.service", "kubelet.service", "undo-mount-hacks.service")
# Removed by kind's Dockerfile so that systemd starts nothing that needs hardware.
_NO_WANTS = (
    "usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "usr/lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "usr/lib/systemd/system/local-fs.target.wants/*",
    "usr/lib/systemd/system/sockets.target.wants/*udev*",
    "usr/lib/systemd/system/sockets.target.wants/*initctl*",
    "usr/lib/systemd/system/basic.target.wants/*",
)


def inputs(catalogue: Catalogue) -> list[object]:
    """Everything that the node image depends on, for its key in the cache."""
    ours = assets("kind") / "node"
    return [
        asdict(catalogue.rootfs["node"]),
        asdict(catalogue.go["kubernetes"]),
        asdict(catalogue.go["kind"]),
        {path.name: path.read_text() for path in sorted(ours.glob("*")) if path.suffix != ".c"},
        1,
    ]


def make(row: ImageRow, catalogue: Catalogue, target: Path, run: Runner, progress: Progress) -> Path:
    """Write the node image's archive to ``target``. Raises CommandFailed, HostNotReady."""
    recipe = catalogue.rootfs["node"]
    base = rootfs(recipe, _settle, run, progress)
    programs = gomod.build(catalogue.go["kubernetes"], run, progress)
    kind = catalogue.go[recipe.kind_files.removeprefix("go:")]
    kind_files = Go(run).download(kind.module, kind.version) / "images" / "base" / "files"
    progress(f"image {row.reference}", None, None)
    with scratch(target) as folder:
        top = folder / "root"
        links = _overlay(top, kind_files, programs, row.reference.rpartition(":")[2])
        files = {f"/{path.relative_to(top)}": path for path in sorted(top.rglob("*")) if not path.is_dir()}
        upper = layer_from_files(folder / "upper.tar", files, links)
        return write_image(
            target,
            row.reference,
            [Layer(base, digest(base)), upper],
            env={"container": "docker"},
            entrypoint=["/usr/local/bin/entrypoint", "/sbin/init"],
            stop_signal="SIGRTMIN+3",
        )


def _settle(root: Path, run: Runner) -> None:
    """Configure a new Debian like kind's base image."""
    for pattern in _NO_WANTS:
        for path in root.glob(pattern):
            path.unlink()
    with (root / "etc/systemd/journald.conf").open("a") as journald:
        journald.write("ReadKMsg=no\n")
    (root / "etc/machine-id").write_text("")
    (root / "etc/systemd/system/systemd-binfmt.service").symlink_to("/dev/null")
    (root / "etc/kubernetes/manifests").mkdir(parents=True)
    spec: dict[str, Any] = json.loads(run.run(["chroot", root, "ctr", "oci", "spec"]).out)
    hooks = spec.setdefault("hooks", {}).setdefault("createContainer", [])
    hooks.append({"path": "/kind/bin/mount-product-files.sh"})
    spec["process"].pop("rlimits", None)
    (root / "etc/containerd").mkdir(exist_ok=True)
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(spec))


def _overlay(top: Path, kind_files: Path, programs: Path, version: str) -> dict[str, str]:
    """Copy kind's files, Kubernetes and the lab's files to ``top``, and return the symbolic links to add."""
    shutil.copytree(kind_files, top, copy_function=shutil.copyfile)
    for path in [top, *top.rglob("*")]:
        program = path.is_dir() or path.parent.name == "bin"
        path.chmod(0o755 if program else 0o644)
    for name in _NODE_PROGRAMS:
        (top / "usr/bin").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(programs / name, top / "usr/bin" / name)
        (top / "usr/bin" / name).chmod(0o755)
    config = top / "etc/containerd/config.toml"
    config.write_text(config.read_text().replace('registry.k8s.io/pause:3.10"', 'registry.k8s.io/pause:3.10.1"'))
    ours = assets("kind") / "node"
    (top / "kind/manifests").mkdir(parents=True)
    shutil.copyfile(ours / "default-storage.yaml", top / "kind/manifests/default-storage.yaml")
    shutil.copyfile(ours / "default-cni.yaml", top / "kind/manifests/default-cni.yaml")
    (top / "kind/version").write_text(version)
    links = {f"/etc/systemd/system/multi-user.target.wants/{unit}": f"/etc/systemd/system/{unit}" for unit in _ENABLED}
    links |= {f"/usr/local/bin/{name}": f"/usr/bin/{name}" for name in ("containerd", "ctr", "containerd-shim-runc-v2")}
    return links | {"/usr/local/sbin/runc": "/usr/sbin/runc", "/opt/cni/bin": "/usr/lib/cni"}
