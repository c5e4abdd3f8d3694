"""Results of the tenant operations: immutable, rendered by ``lab.ui``, printed by ``--json``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config import TenantSpec
from lab.engine.run import RunRecord
from lab.engine.step import Effect, Observed, State
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
    def kai_missing(self) -> bool:
        return self.spec.mode == "own-kai" and not self.kai

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.spec.name,
            "mode": self.spec.mode,
            "state": self.state,
            "added": self.added,
            "kubernetes": self.spec.kubernetes,
            "vcluster": self.spec.vcluster,
            "kai_version": self.kai,
            "kai_wanted": self.spec.kai_version or "",
            "nodes": self.nodes,
            "gpus": self.gpus,
            "gpus_held": self.gpus_held,
            "gpus_used": self.gpus_used,
            "gpu_quota": self.spec.quota.gpus,
            "pods_running": self.running,
            "pods_pending": self.pending,
            "answers": self.answers,
            "why": self.why,
            "kubeconfig": self.kubeconfig,
            "server": self.server,
            "access": self.access,
        }


@dataclass(frozen=True)
class TenantStatus:
    """One tenant and its steps; a step is its id, title and state."""

    state: TenantState
    steps: tuple[tuple[str, str, Observed], ...]

    @property
    def ok(self) -> bool:
        return all(seen.state is State.READY for _, _, seen in self.steps)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.state.as_json(),
            "ok": self.ok,
            "steps": [{"id": step, "title": title, **vars(seen)} for step, title, seen in self.steps],
        }


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

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant.name,
            "mode": self.tenant.mode,
            "nodes": self.nodes,
            "kai_version": self.tenant.kai_version or "",
            "kubernetes": self.tenant.kubernetes,
            "ok": self.record.ok,
            "changed": self.record.changed,
            "seconds": round(self.record.seconds, 2),
            "kubeconfig": self.kubeconfig,
            "changes": [effect.what for effect in self.changes],
            "notices": self.notices,
            "steps": self.record.steps,
        }


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

    def as_json(self) -> dict[str, Any]:
        return {
            "tenant": self.name,
            **self.removal.as_json(),
            "nodes": self.nodes,
            "changes": [effect.what for effect in self.changes],
            "in_lab_file": self.in_file,
        }
