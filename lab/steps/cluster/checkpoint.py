"""Keeps the state of a new lab, so that the next ``kailab up`` of the same lab file restores it.

A checkpoint has the data of etcd and of volumes, the CAs, the kubelets' certificates, and what steps have placed in the
nodes: besides the node image, all that distinguishes a lab that is up from an empty one. Processes start anew, and
every step observes, waits and verifies as always. It belongs to one lab of one state directory, whose nodes exist once,
so no two clusters that live at once have the same keys.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config import LabSpec, dump_spec
from lab.files import remove, replacing, write_atomic
from lab.gpu.nvidia.node_state import UNIT as NVIDIA_UNIT
from lab.gpu.simulated import node_files
from lab.paths import assets
from lab.session.context import LabContext, is_control_plane
from lab.steps import pod_network
from lab.steps.cluster.config import VOLUMES, shape
from lab.steps.cluster.ownership import one_off
from lab.supply.cache import key_of, sweep
from lab.tools.container import Container
from lab.version import VERSION

_SAVED = "/kailab/checkpoint"
_DAYS = 30.0
"""Certificates in a checkpoint are valid for a year from its creation: kubelets', tenants' and KAI's."""

_FORMAT = 2
"""Changes with what a checkpoint has."""

_PROGRAMS = {
    "kubeadm": ("/usr/local/sbin", 0o755),
    "kailab-restore.service": ("/etc/systemd/system", 0o644),
    "restore.conf": ("/etc/systemd/system/multi-user.target.d", 0o644),
}
"""Files of ``kind/checkpoint``: their directories in the nodes, and modes."""

_FACTS = "checkpoint.json"
_PKI = "/etc/kubernetes/pki"
_CAS = tuple(f"{_PKI}/{name}" for name in ("ca.crt", "ca.key", "sa.pub", "sa.key", "etcd/ca.crt", "etcd/ca.key"))
_CONTROL_PLANE = (*_CAS, f"{_PKI}/front-proxy-ca.crt", f"{_PKI}/front-proxy-ca.key")
_KUBELET = "/var/lib/kubelet"
_WORKER = (
    "/etc/kubernetes/kubelet.conf",
    f"{_PKI}/ca.crt",
    *(f"{_KUBELET}/{name}" for name in ("config.yaml", "instance-config.yaml", "kubeadm-flags.env", "pki")),
)
_PLACED = (*pod_network.PLACED, *node_files.PLACED)
"""What later steps place in nodes. Restored, it lets pods start with their kubelet, 6 s before those steps are through.

Nodes with real GPUs are without: their pods must not start before the NVIDIA runtime is set up.
"""
_ARCHIVE = "/var/kailab-checkpoint.tgz"


def checkpoint_key(spec: LabSpec, image: str) -> str:
    """The fingerprint of everything that a checkpoint depends on."""
    return key_of(VERSION, _FORMAT, shape(spec, image), dump_spec(spec))


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on the disk."""

    folder: Path
    ports: Mapping[str, int]
    """Host ports by owner: tenants have theirs in certificates and kubeconfigs."""


def usable(ctx: LabContext, key: str) -> Checkpoint | None:
    """The lab's checkpoint, if it has that key, is young enough, and no lab restored from it failed; else None."""
    folder = ctx.paths.checkpoint
    try:
        facts = json.loads((folder / _FACTS).read_text())
        age = time.time() - float(facts["made"])
        found = Checkpoint(folder, {owner: int(port) for owner, port in facts["ports"].items()})
        fits = facts["key"] == key and 0 <= age < _DAYS * 86400
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if fits and not _unproven(folder).exists() else None


def restore_mounts(folder: Path) -> tuple[dict[str, Any], ...]:
    """The mounts with which kind creates nodes from a checkpoint; until ``trust`` it counts as failed."""
    _unproven(folder).touch()
    mounts = [{"hostPath": str(folder), "containerPath": _SAVED, "readOnly": True}]
    for name, (where, mode) in _PROGRAMS.items():
        write_atomic(folder / name, (assets("kind") / "checkpoint" / name).read_text(), mode)
        mounts.append({"hostPath": str(folder / name), "containerPath": f"{where}/{name}", "readOnly": True})
    return tuple(mounts)


def trust(ctx: LabContext) -> None:
    """Record that a lab restored from the checkpoint came up, or that nothing speaks against it."""
    _unproven(ctx.paths.checkpoint).unlink(missing_ok=True)


def discard(ctx: LabContext) -> None:
    """Remove the lab's checkpoint, if it has one, and what a killed ``save`` has left of another."""
    remove(ctx.paths.checkpoint)
    sweep(ctx.paths.checkpoint, others=False)


def save(ctx: LabContext, key: str) -> None:
    """Write a checkpoint of a lab that is up and that nobody has used yet. Its nodes are frozen for a second.

    Raises CommandFailed, LabError, OSError.
    """
    sweep(ctx.paths.checkpoint, others=False)  # what a killed one left has keys
    nodes = ctx.nodes()
    first = next(node for node in nodes if is_control_plane(node))
    with replacing(ctx.paths.checkpoint, sync=False) as new:
        new.mkdir(mode=0o700)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda node: _save_node(ctx, node, new), nodes))
        _save_data(ctx, nodes, first, new)
        ports = {port.name: int(port.facts["host"]) for port in ctx.journal.owned("port")}
        (new / _FACTS).write_text(json.dumps({"key": key, "made": time.time(), "ports": ports}) + "\n")


def _save_node(ctx: LabContext, node: Container, folder: Path) -> None:
    paths = _CONTROL_PLANE if is_control_plane(node) else _WORKER
    there = 'cd / && for path; do [ ! -e "$path" ] || echo "${path#/}"; done'
    placed = f'[ -e /etc/systemd/system/{NVIDIA_UNIT} ] || set -- "$@" {" ".join(_PLACED)}'
    script = f"{{ {placed}; {there}; }} | tar -czf {_ARCHIVE} -C / -T -"
    ctx.engine.exec(node.name, ["sh", "-c", script, "kailab", *paths])
    ctx.engine.call("cp", f"{node.name}:{_ARCHIVE}", str(folder / f"{node.name}.tgz"))
    ctx.engine.exec(node.name, ["rm", "-f", _ARCHIVE])


def _save_data(ctx: LabContext, nodes: Sequence[Container], first: Container, folder: Path) -> None:
    """Save etcd and the volumes as they are at one moment: no process in any node runs meanwhile."""
    names = [node.name for node in nodes]
    data = ("--volumes-from", first.name, "--volume", f"{folder}:{_SAVED}")
    script = (
        f"set -e; cd {_SAVED}; tar -C / -c var/lib/etcd | gzip -1 >etcd.tgz;"
        f" tar -C {VOLUMES} -c . | gzip -1 >volumes.tgz; chown --reference=. etcd.tgz volumes.tgz"
    )
    ctx.paths.paused.touch(mode=0o600)  # first: after a kill or Ctrl-C, 'kailab resume' continues the nodes
    try:
        ctx.engine.pause(*names)
        ctx.engine.call("run", *one_off(ctx), *data, "--entrypoint", "sh", first.image, "-c", script)
    finally:
        ctx.engine.unpause(*names)
        ctx.paths.paused.unlink(missing_ok=True)


def _unproven(folder: Path) -> Path:
    return folder / "unproven"
