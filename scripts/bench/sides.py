"""The two sides of the benchmark: a lab, and the files from which the plain script builds the same lab."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.config import LabSpec, dump_spec, load_profile
from lab.errors import SpecError, Unavailable
from lab.gpu.device_plugin import GpuPlugin
from lab.gpu.feature_labels import DISCOVERY
from lab.gpu.pools import node_labels, pools_by_node
from lab.gpu.simulated.devices import gpus_of
from lab.gpu.simulated.node_files import files_of
from lab.gpu.simulated.nodes import INSTALL
from lab.gpu.simulated.nvml_build import build_library, library_at_hand, node_arch, source_digest
from lab.host.engines import inspect
from lab.host.machine import Machine
from lab.kai import line_of
from lab.operations.planning import Plan, items_needed
from lab.operations.prepare import prepare as prepare_lab
from lab.paths import assets
from lab.session.lab import Lab
from lab.steps.cluster.config import has_gpus, kind_config
from lab.steps.cluster.ports import free_ports
from lab.steps.helm_release import base_values, value_at
from lab.steps.kai.values import kai_deployments, kai_values
from lab.steps.node_image import NodeImage, control_plane_images
from lab.steps.queues import queue_documents
from lab.supply import Item
from lab.supply.catalogue import kind_node
from lab.tenants.vcluster.access import Endpoint
from lab.tenants.vcluster.values import release_values

A, B = "bench-a", "bench-b"
COREDNS = "registry.k8s.io/coredns/coredns:"


@dataclass
class Bench:
    """State shared by all runs; with ``dry``, nothing is built."""

    work: Path
    spec: LabSpec
    lab: Lab
    plan: Plan
    dry: bool

    @property
    def twin(self) -> LabSpec:
        """The resolved lab under B's name."""
        return self.lab.spec.model_copy(update={"name": B})

    @property
    def engine(self) -> str:
        """docker, podman or nerdctl."""
        return self.lab.session.engine.name

    def place(self, kind: str, name: str) -> str:
        """Path of an item; in a dry run, the source of an item that is not in the cache."""
        supply, item = self.lab.session.supply, Item(kind, name)
        choice = supply.choose([item])[item]
        here = choice.source == "bundle" or choice.where == "cache" or kind == "binary"
        if self.dry and not (here and choice.source in ("present", "bundle")):
            return f"<{item}, from {choice.source}>"
        return str(supply.path(item))

    def base(self) -> NodeImage | None:
        """B's node image, with only what kubeadm needs; None when the released image has it already."""
        supply = self.lab.session.supply
        if not supply.own_node:
            return None
        dns = [item for item in items_needed(self.twin, supply) if item.name.startswith(COREDNS)]
        return NodeImage.of(self.twin, supply, [*control_plane_images(supply), *dns], ())

    def loads(self) -> list[str]:
        """Images that B loads into its nodes: the lab's and those of the chart's hooks."""
        supply, base = self.lab.session.supply, self.base()
        inside = {item.name for item in base.images} if base else set()
        inside.add(kind_node(self.twin.cluster.kubernetes).name)
        names = [item.name for item in items_needed(self.twin, supply) if item.kind == "image"]
        hooks = hook_images(self.twin) if self.lab.has_kai else ()
        return [name for name in dict.fromkeys([*names, *hooks]) if name not in inside]


def hook_images(spec: LabSpec) -> tuple[str, ...]:
    """Images of the chart's hook Jobs, which the lab does not run."""
    values, line = kai_values(spec), line_of(spec.kai.version)
    registry, tag = value_at(values, "global.registry"), value_at(values, "global.tag") or line.tag
    return tuple(f"{registry}/{name}:{tag}" for name in line.hook_images)


def prepare(work: Path, profile: str, settings: Sequence[str], dry: bool) -> Bench:
    """Resolve the lab that both sides build. Raises LabError: the script cannot build it, or an item is missing."""
    spec = load_profile(profile, [f"name={A}", *settings])
    lab = Lab.of(spec)
    plan, _ = prepare_lab(lab)
    plan.refuse_missing()
    if lab.has_kai:
        lacking = [name for name in hook_images(lab.spec) if not lab.session.supply.has("image", name)]
        if lacking:
            what = f"the chart's hooks, which the script runs, need {lacking[0]}, which is not available"
            raise Unavailable(what, fix="make it available, such as with a bundle; or --set scheduler=default")
    if lab.spec.gpu.mode == "nvidia" or any(tenant.mode == "own-kai" for tenant in lab.spec.tenants):
        raise SpecError(
            "the script builds no lab with NVIDIA's GPUs or own-kai tenants", fix="--set gpu.mode=simulated"
        )
    (work / "lab.yaml").write_text(dump_spec(spec))
    return Bench(work, spec, lab, plan, dry)


def notes(bench: Bench) -> list[str]:
    """Where the script is not what a person would type, and what the lab has that the script lacks."""
    lines = ["The images are archives on this machine: the lab's node image has them baked in, the script loads them."]
    if not bench.lab.has_kai:
        lines.append(f"NO KAI SCHEDULER on either side: {bench.lab.kai_reason}")
    if has_gpus(bench.twin):
        lines.append("The script writes the lab's files of simulated GPUs into its nodes: no release has them.")
    if bench.base():
        lines.append("The script starts from a node image built here and lays its pod network, as the lab does.")
    return lines


def write_plain(bench: Bench, folder: Path) -> Path:
    """Write the folder that ``plain_lab.sh`` reads."""
    spec, base = bench.twin, bench.base()
    folder.mkdir(parents=True)
    session = bench.lab.session
    old_cgroups = inspect(session.engine.name, session.runner, Machine()).cgroup_version == "1"  # as on the lab's side
    with free_ports(spec) as ports:
        config = kind_config(spec, ports, own_node=base is not None, old_cgroups=old_cgroups)
    files: dict[str, Any] = {"kind.yaml": config, "storage.yaml": base_values("vcluster", "storage")}
    if bench.lab.has_kai:
        files["kai.json"] = kai_values(spec)
        if spec.queues:
            files["queues.json"] = {"apiVersion": "v1", "kind": "List", "items": queue_documents(spec)}
    published = {port.owner: port for port in ports.mappings}
    for tenant in spec.tenants:
        port = published[tenant.name]
        endpoint = Endpoint(f"https://127.0.0.1:{port.host}", node_port=port.node)
        files[f"tenant-{tenant.name}.json"] = release_values(spec, tenant, endpoint)
    if has_gpus(spec):
        files["gpu.json"] = {"apiVersion": "v1", "kind": "List", "items": GpuPlugin(spec).documents()}
        write_gpus(bench, folder)
    for name, data in files.items():
        text = yaml.safe_dump(data) if name.endswith(".yaml") else json.dumps(data, indent=1)
        (folder / name).write_text(text)
    (folder / "conflist.json").write_text((assets("kind") / "cni" / "conflist.json").read_text())
    (folder / "images").write_text("".join(f"{bench.place('image', name)}\n" for name in bench.loads()))
    tenants = "".join(f"{tenant.name} {published[tenant.name].host}\n" for tenant in spec.tenants)
    (folder / "tenants").write_text(tenants)
    helm = bool(spec.tenants) or bench.lab.has_kai
    settings = {
        "NAME": f"kailab-{B}",
        "ENGINE": bench.engine,
        "KIND": bench.place("binary", "kind"),
        "KUBECTL": bench.place("binary", "kubectl"),
        "HELM": bench.place("binary", "helm") if helm else "",
        "IMAGE": base.tag if base else kind_node(spec.cluster.kubernetes).name,
        "OWN_NODE": "yes" if base else "no",
        "NODES": " ".join(node_names(spec)),
        "KAI_CHART": bench.place("chart", "kai-scheduler") if bench.lab.has_kai else "",
        "KAI_DEPLOYMENTS": (
            " ".join(f"deployment/{name}" for name in kai_deployments(spec)) if bench.lab.has_kai else ""
        ),
        "GPU_INSTALL": INSTALL if has_gpus(spec) else "",
        "GPU_DISCOVERY": " ".join(DISCOVERY),
        "VCLUSTER_CHART": bench.place("chart", "vcluster") if spec.tenants else "",
    }
    (folder / "settings").write_text("".join(f"{k}={shlex.quote(v)}\n" for k, v in settings.items()))
    return folder


def write_gpus(bench: Bench, folder: Path) -> None:
    """Write ``gpu-nodes``: node, number of GPUs and labels by line; and a tar of the lab's files for each node."""
    spec, session = bench.twin, bench.lab.session
    library = library_at_hand(session.supply) or build_library(session.runner, lambda *_: None)
    lines = []
    for name, pool in pools_by_node(spec).items():
        gpus, arch = gpus_of(spec.name, name, spec.gpu), node_arch()
        files = files_of(name, gpus, source_digest(arch), arch, spec.gpu.toolkit)
        (folder / f"gpu-{name}.tar").write_bytes(files.payload(library))
        labels = " ".join(f"{key}={value}" for key, value in node_labels(pool).items())
        lines.append(f"{name} {pool.per_node} {labels}\n")
    (folder / "gpu-nodes").write_text("".join(lines))


def node_names(spec: LabSpec) -> list[str]:
    """Names of the node containers."""
    counts = {"control-plane": spec.cluster.control_planes, "worker": spec.cluster.workers}
    cluster = f"kailab-{B}"  # the files of the GPUs name nodes like the lab's
    return [f"{cluster}-{role}{n if n > 1 else ''}" for role, count in counts.items() for n in range(1, count + 1)]
