"""The two sides of the benchmark: a lab, and the files from which the plain script builds the same lab."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.config import LabSpec, dump_spec, load_profile
from lab.host.engines import inspect
from lab.host.machine import Machine
from lab.kai import line_of
from lab.operations.planning import Plan, items_needed
from lab.operations.prepare import prepare as prepare_lab
from lab.paths import assets
from lab.session.lab import Lab
from lab.steps.cluster.config import kind_config
from lab.steps.cluster.ports import free_ports
from lab.steps.helm_release import base_values, value_at
from lab.steps.kai.values import kai_deployments, kai_values
from lab.steps.node_image import NodeImage, base_image, control_plane_images
from lab.steps.queues import queue_documents
from lab.supply import Item
from lab.tenants.vcluster.access import Endpoint
from lab.tenants.vcluster.values import release_values

ROOT = Path(__file__).parents[2]

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
        return NodeImage.of(self.twin, supply, [*control_plane_images(self.twin, supply), *dns], ())

    def loads(self) -> list[str]:
        """Images that B loads into its nodes: the lab's and those of the chart's hooks."""
        supply, base = self.lab.session.supply, self.base()
        inside = {item.name for item in base.images} if base else set()
        inside.add(base_image(self.twin).name)
        names = [item.name for item in items_needed(self.twin, supply) if item.kind == "image"]
        hooks = hook_images(self.twin) if self.lab.has_kai else ()
        return [name for name in dict.fromkeys([*names, *hooks]) if name not in inside]


def hook_images(spec: LabSpec) -> tuple[str, ...]:
    """Images of the chart's hook Jobs, which the lab does not run."""
    values, line = kai_values(spec), line_of(spec.kai.version)
    registry, tag = value_at(values, "global.registry"), value_at(values, "global.tag") or line.tag
    return tuple(f"{registry}/{name}:{tag}" for name in line.hook_images)


def without_kai(spec: LabSpec) -> LabSpec:
    """The same lab with the default scheduler."""
    tenants = tuple(tenant.model_copy(update={"mode": "default"}) for tenant in spec.tenants)
    return spec.model_copy(update={"scheduler": "default", "tenants": tenants, "queues": ()})


def prepare(work: Path, profile: str, dry: bool) -> Bench:
    """Resolve the lab that both sides build. Raises LabError."""
    spec = load_profile(profile, [f"name={A}", "gpu.mode=none"])
    lab = Lab.of(spec)
    plan, _ = prepare_lab(lab)
    reason = lab.kai_reason
    if lab.has_kai:
        lacking = [name for name in hook_images(lab.spec) if not lab.session.supply.has("image", name)]
        if lacking:
            reason = f"the chart's hooks, which B runs, need {lacking[0]}, which is not available"
            spec = without_kai(spec)
            lab = Lab.of(spec)
            plan, _ = prepare_lab(lab)
    if not lab.has_kai:
        print(f"NO KAI SCHEDULER on either side: {reason}")
    plan.refuse_missing()
    (work / "lab.yaml").write_text(dump_spec(spec))
    return Bench(work, spec, lab, plan, dry)


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
    for name, data in files.items():
        text = yaml.safe_dump(data) if name.endswith(".yaml") else json.dumps(data, indent=1)
        (folder / name).write_text(text)
    (folder / "conflist.json").write_text((assets("kind") / "cni" / "conflist.json").read_text())
    (folder / "images").write_text("".join(f"{bench.place('image', name)}\n" for name in bench.loads()))
    tenants = "".join(f"{tenant.name} {published[tenant.name].host}\n" for tenant in spec.tenants)
    (folder / "tenants").write_text(tenants)
    helm = bool(spec.tenants) or bench.lab.has_kai
    settings = {
        "NAME": B,
        "ENGINE": bench.engine,
        "KIND": bench.place("binary", "kind"),
        "KUBECTL": bench.place("binary", "kubectl"),
        "HELM": bench.place("binary", "helm") if helm else "",
        "IMAGE": base.tag if base else base_image(spec).name,
        "OWN_NODE": "yes" if base else "no",
        "NODES": " ".join(node_names(spec)),
        "KAI_CHART": bench.place("chart", "kai-scheduler") if bench.lab.has_kai else "",
        "KAI_DEPLOYMENTS": (
            " ".join(f"deployment/{name}" for name in kai_deployments(spec)) if bench.lab.has_kai else ""
        ),
        "VCLUSTER_CHART": bench.place("chart", "vcluster") if spec.tenants else "",
    }
    (folder / "settings").write_text("".join(f"{k}={shlex.quote(v)}\n" for k, v in settings.items()))
    return folder


def node_names(spec: LabSpec) -> list[str]:
    """Kind's names of the node containers."""
    counts = {"control-plane": spec.cluster.control_planes, "worker": spec.cluster.workers}
    return [f"{B}-{role}{n if n > 1 else ''}" for role, count in counts.items() for n in range(1, count + 1)]
