"""Results of the tenant operations: immutable, rendered by ``lab.ui``, printed by ``--json``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.config import TenantSpec
from lab.engine.run import RunRecord
from lab.engine.step import Effect, ObservedStep, State
from lab.tenants.removal.timeline import Removal


@dataclass(frozen=True)
class TenantState:
    """The state of one tenant."""

    spec: TenantSpec
    added: bool
    """Added by 'kailab tenant add', not by the lab file."""
    there: bool
    """Its namespace exists on the host."""
    answers: bool
    """Its API server is ready through the tenant's kubeconfig."""
    why: str
    """Why it does not answer; empty when it does."""
    kai: str
    """Version of the KAI installed inside, from Helm's record; empty without one."""
    nodes: tuple[str, ...]
    """Its dedicated workers, by short name; empty when it shares the lab's nodes."""
    gpus: int
    """GPUs on the nodes that it may use."""
    gpus_held: int
    """GPUs that its pods use, whole or in part."""
    gpus_used: float
    """The same as a sum of shares."""
    running: int
    """Pods of its workloads in phase Running."""
    pending: int
    kubeconfig: Path
    server: str
    """URL of its API server; empty while it has no port."""
    access: str = ""
    """In an existing cluster NodePort, LoadBalancer or port-forward."""
    mode: str = ""
    """Its mode in words, where the lab has no KAI for it; empty: that of the lab file."""

    @property
    def state(self) -> str:
        """ready, not ready or absent."""
        return "absent" if not self.there else "ready" if self.answers and not self.kai_missing else "not ready"

    @property
    def kai_wanted(self) -> str:
        """Version of its own KAI by its spec; empty without one."""
        return self.spec.kai_version or ""

    @property
    def kai_missing(self) -> bool:
        return self.spec.mode == "own-kai" and not self.kai

    JSON = (
        "name=spec.name mode=spec.mode state added kubernetes=spec.kubernetes vcluster=spec.vcluster "
        "kai_version=kai kai_wanted nodes gpus gpus_held gpus_used gpu_quota=spec.quota.gpus "
        "pods_running=running pods_pending=pending answers why kubeconfig server access"
    )


@dataclass(frozen=True)
class TenantStatus:
    """One tenant and its steps."""

    state: TenantState
    steps: tuple[ObservedStep, ...]

    @property
    def ok(self) -> bool:
        return all(step.seen.state is State.READY for step in self.steps)

    JSON = "*state ok steps"


@dataclass(frozen=True)
class Added:
    """Result of adding a tenant."""

    tenant: TenantSpec
    nodes: tuple[str, ...]
    """Its dedicated workers, by short name."""
    record: RunRecord
    kubeconfig: Path
    changes: tuple[Effect, ...]
    """The changes that affect others: KAI on the host."""
    notices: tuple[str, ...]

    @property
    def kai_version(self) -> str:
        return self.tenant.kai_version or ""

    @property
    def effects(self) -> tuple[str, ...]:
        return tuple(effect.what for effect in self.changes)

    JSON = (
        "tenant=tenant.name mode=tenant.mode nodes kai_version kubernetes=tenant.kubernetes ok=record.ok "
        "changed=record.changed seconds=record.seconds kubeconfig changes=effects notices "
        "steps=record.steps"
    )


@dataclass(frozen=True)
class Removed:
    """Result of removing a tenant."""

    name: str
    removal: Removal
    nodes: tuple[str, ...]
    """Workers that were dedicated to it and are shared again."""
    changes: tuple[Effect, ...]
    """The changes that affect others: KAI on the host."""
    in_file: bool
    """It is a tenant of the lab file, which would recreate it."""

    @property
    def effects(self) -> tuple[str, ...]:
        return tuple(effect.what for effect in self.changes)

    JSON = "*removal nodes changes=effects in_lab_file=in_file"
