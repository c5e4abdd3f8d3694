"""The handle on one lab."""

from __future__ import annotations

from pathlib import Path

from lab.config import LabSpec, TenantSpec, beside_host_kai
from lab.engine.events import Bus
from lab.errors import NoLab, StepFailed
from lab.kube import Cluster
from lab.objects.isolation_labels import namespace_labels
from lab.paths import LabPaths
from lab.session.context import LabContext
from lab.session.session import Session, name_of
from lab.tools.process import Runner

KAI_SERVES = "kai_serves"
"""Fact: the labels that a namespace needs for an adopted KAI to serve it, as ``key=value,…``; absent: none."""

OWN_NETWORK = "ptp"
"""Fact ``pod_network`` of nodes whose image was built here: the lab lays the network. Otherwise ``kindnet``."""


class Lab:
    """One lab: ``Lab.of`` returns the lab of a lab file, ``Lab.attach`` one that is up."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @classmethod
    def of(cls, spec: LabSpec) -> Lab:
        """The lab of a lab file, up or not."""
        return cls(Session(spec, spec))

    @classmethod
    def attach(cls, name: str | None = None, *, paused: bool = False) -> Lab:
        """A lab that is up, with ``paused`` also one that is paused: by name, KAILAB_LAB, or the only one that exists.

        Raises:
            NoLab: no such lab is up.
            StepFailed: it is paused.
        """
        lab = cls(Session.attached(name_of(name)))
        if not lab.paths.kubeconfig.exists():
            raise NoLab(f"lab {lab.spec.name!r} has no cluster yet", fix="kailab up")
        if not paused and lab.paths.paused.exists():
            raise StepFailed(f"lab {lab.spec.name!r} is paused", fix=f"kailab resume --name {lab.spec.name}")
        lab.session.renew_credentials()
        return lab

    @property
    def bus(self) -> Bus:
        """The event bus."""
        return self.session.bus

    @property
    def spec(self) -> LabSpec:
        """The lab file, with ``auto`` resolved."""
        return self.session.spec

    @property
    def paths(self) -> LabPaths:
        """The lab's state files."""
        return self.session.paths

    @property
    def runner(self) -> Runner:
        """Runs commands and logs them to the lab's log."""
        return self.session.runner

    @property
    def cluster(self) -> Cluster:
        """The lab's own cluster."""
        return self.session.cluster()

    @property
    def tenants(self) -> tuple[TenantSpec, ...]:
        """The lab's tenants."""
        return self.spec.tenants

    @property
    def has_kai(self) -> bool:
        """Whether the lab has KAI."""
        return self.spec.scheduler == "kai"

    @property
    def kai_version(self) -> str | None:
        """KAI's version, None without KAI."""
        return self.spec.kai.version if self.has_kai else None

    @property
    def kai_serves(self) -> dict[str, str]:
        """Labels that a namespace needs for the host's KAI to serve it: beside own-kai tenants, or an adopted one."""
        pairs = self.session.facts.get(KAI_SERVES, "").split(",")
        adopted = dict(pair.split("=", 1) for pair in pairs if pair)
        return {**namespace_labels("host-kai", beside_host_kai=beside_host_kai(self.spec)), **adopted}

    @property
    def kai_reason(self) -> str:
        """Why the lab has no KAI; empty if it has."""
        return self.session.facts.get("no_kai", "")

    @property
    def gpu_mode(self) -> str:
        """simulated, nvidia, present or none."""
        return self.session.facts.get("gpu_mode", "none")

    @property
    def gpus_in_containers(self) -> bool:
        """Whether containers see their GPUs: simulated ones of an existing cluster only the scheduler does."""
        return self.spec.cluster.own or self.gpu_mode != "simulated"

    @property
    def kind_name(self) -> str:
        """Name of the kind cluster."""
        return self.session.scope("").kind_name

    @property
    def node_image(self) -> str:
        """The node image's tag."""
        return self.session.facts.get("node_image", "")

    @property
    def own_node(self) -> bool:
        """Whether the node image was built here, without kindnet."""
        return self.spec.cluster.own and self.session.facts.get("pod_network") == OWN_NETWORK

    def tenant(self, name: str) -> Cluster:
        """A tenant's cluster. Raises NoLab if the lab has no such tenant."""
        if name not in {tenant.name for tenant in self.tenants}:
            known = ", ".join(tenant.name for tenant in self.tenants) or "none"
            raise NoLab(f"lab {self.spec.name!r} has no tenant {name!r} (tenants: {known})", fix="kailab status")
        return self.session.cluster(name)

    def tool(self, name: str) -> Path:
        """Path of the lab's kind, kubectl or helm. Raises Unavailable."""
        return self.session.supply.binary(name)

    def facts(self) -> dict[str, str]:
        """Versions and modes of this lab, for reports."""
        return dict(self.session.facts)

    def context(self, step: str) -> LabContext:
        """The context of a step."""
        return self.session.scope(step)
