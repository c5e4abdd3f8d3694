"""A lab that is up according to its saved state, with fake steps and a fake cluster, for 'kailab tenant'."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lab.operations.tenant.add
import lab.operations.tenant.changes
import lab.operations.tenant.status
import lab.operations.tenant.upgrade
import lab.session.session
import lab.tenants.virtual_cluster
from lab.config import LabSpec, TenantSpec
from lab.config.budget import top_queue
from lab.config.node_assignment import beside_host_kai, tenant_nodes
from lab.engine.step import Effect, Observed
from lab.gpu.map.model import GpuMap
from lab.paths import LabPaths
from lab.session.lab import Lab
from lab.session.session import Session
from lab.steps.kai.step import Kai
from lab.steps.kai.values import release_values
from lab.tenants.removal.timeline import Removal
from lab.tenants.virtual_cluster import VirtualCluster
from tests.support.builders import release_secret
from tests.support.fake_api_server import FakeApiServer


@dataclass
class FakeStep:
    """A step that logs its verbs; ``act`` may raise."""

    id: str
    log: list[str]
    needs: tuple[str, ...] = ()
    act: Callable[[], None] = lambda: None
    seen: Observed = field(default_factory=Observed.absent)
    want: object = None

    @property
    def title(self) -> str:
        return self.id

    def effects(self) -> tuple[Effect, ...]:
        return ()

    def observe(self, ctx: Any) -> Observed:
        return self.seen

    def apply(self, ctx: Any) -> None:
        self.log.append(self.id)
        self.act()

    def verify(self, ctx: Any) -> None:
        pass

    def undo(self, ctx: Any) -> None:
        self.log.append(f"undo {self.id}")

    @property
    def part_of(self) -> str:
        kind, _, tenant = self.id.partition(":")
        return f"tenant:{tenant}" if kind in ("kai", "queues") and tenant else "cluster"

    def wanted(self) -> object:
        return self.want

    def remains(self, ctx: Any) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class FakeVirtualCluster(VirtualCluster):
    """A tenant that is ready at once; its removal is the fake of the test."""

    log: list[str] = field(default_factory=list, compare=False)
    act: Callable[[], None] = lambda: None

    @property
    def needs(self) -> tuple[str, ...]:
        return ()

    def observe(self, ctx: Any) -> Observed:
        return Observed.absent()

    def apply(self, ctx: Any) -> None:
        self.log.append(self.id)
        self.act()

    def verify(self, ctx: Any) -> None:
        pass


@dataclass(frozen=True)
class FakeKai(Kai):
    """KAI on the host: compared with the release on the fake API server, and applied at once."""

    log: list[str] = field(default_factory=list, compare=False)
    act: Callable[[], None] = lambda: None

    def apply(self, ctx: Any) -> None:
        self.log.append(self.id)
        self.act()

    def verify(self, ctx: Any) -> None:
        pass


def saved_state() -> dict[str, Any]:
    """The saved state of lab ``demo``."""
    return dict(json.loads(LabPaths("demo").spec.read_text()))


def lab_file(**more: Any) -> LabSpec:
    """A lab of three workers with one own-kai tenant."""
    base: dict[str, Any] = {
        "name": "demo",
        "cluster": {"workers": 3},
        "gpu": {"mode": "simulated"},
        "scheduler": "default",
        "tenants": [{"name": "file", "mode": "default"}],
    }
    return LabSpec.model_validate({**base, **more}, by_alias=True, by_name=False)


def own_kai(name: str = "ml", **more: Any) -> TenantSpec:
    """A tenant with its own KAI."""
    base = {"name": name, "mode": "own-kai", "kaiVersion": "0.16.8"}
    return TenantSpec.model_validate({**base, **more}, by_alias=True, by_name=False)


class TenancyWorld:
    """A lab whose state is on disk; ``log`` has the verbs of its steps."""

    def __init__(self, patch: pytest.MonkeyPatch, spec: LabSpec | None = None, added: tuple[TenantSpec, ...] = ()):
        self.log: list[str] = []
        self.api = FakeApiServer(log=self.log)
        self.tenants: dict[str, FakeApiServer] = {}
        self.acts: dict[str, Callable[[], None]] = {}
        self.gpus = GpuMap("2026-11-21T10:00:00Z")
        self.removal = Removal("", (), 1.0)
        spec = spec or lab_file()
        Session(spec, spec, {"scheduler": spec.scheduler}, added=added).save()
        patch.setattr(Session, "cluster", lambda session, name="": (self.tenants[name] if name else self.api).cluster)
        for module in (lab.operations.tenant.add, lab.operations.tenant.upgrade):
            patch.setattr(module, "loading_steps", lambda *_: ())
        for module in (lab.operations.tenant.changes, lab.operations.tenant.status):
            patch.setattr(module, "cluster_steps", self.steps)
        patch.setattr(lab.operations.tenant.add, "validate_tenants", lambda *_: ())
        patch.setattr(lab.session.session.Supply, "own_node", True)
        patch.setattr(lab.session.session.Supply, "chart", lambda *_: Path("/cache/vcluster.tgz"))
        patch.setattr(lab.operations.tenant.add.GpuSource, "read", lambda _: self.gpus)
        patch.setattr("lab.steps.loaded_images.missing", lambda *_: {})
        patch.setattr(lab.tenants.virtual_cluster, "remove_tenant", self.remove)
        patch.setattr(lab.tenants.virtual_cluster, "foreign", lambda *_: None)
        self.removed: list[tuple[str, float | None]] = []

    def lab(self) -> Lab:
        """The lab as another process would attach to it."""
        return Lab(Session.attached("demo"))

    def install_kai(self) -> None:
        """Put the release of KAI on the host, as the lab's spec wants it, on the fake API server."""
        spec = self.lab().spec
        release = release_secret("kai-scheduler", "kai-scheduler", release_values(spec), version=f"v{spec.kai.version}")
        self.api.add(release)

    def steps(self, spec: LabSpec, *_: object) -> tuple[Any, ...]:
        """A plan with one or two steps for each tenant."""
        apart = beside_host_kai(spec)
        found: list[Any] = [self.step("network")]
        found += [FakeKai(spec, log=self.log, act=self.act("kai"))] if spec.scheduler == "kai" else []
        found += [self.step("queues", "kai", want=spec.queues)] if top_queue(spec) else []
        found += [self.step("tenant-nodes", "network", want=tenant_nodes(spec))] if tenant_nodes(spec) else []
        found += [self.step("isolation", "kai", "tenant-nodes", want=spec.tenants)] if apart else []
        for tenant in spec.tenants:
            found.append(FakeVirtualCluster(spec, tenant, log=self.log, act=self.act(f"tenant:{tenant.name}")))
            if tenant.mode == "own-kai":
                before = (f"tenant:{tenant.name}", *(("isolation",) if apart else ()))
                found.append(self.step(f"kai:{tenant.name}", *before))
                found.append(self.step(f"queues:{tenant.name}", f"kai:{tenant.name}"))
        return tuple(found)

    def act(self, name: str) -> Callable[[], None]:
        """The effect of applying a step."""
        return self.acts.get(name, lambda: None)

    def step(self, name: str, *needs: str, want: object = None) -> FakeStep:
        """A step; ``acts`` defines the effect of applying it."""
        return FakeStep(name, self.log, needs, self.act(name), want=want)

    def remove(self, ctx: Any, tenant: TenantSpec, *, grace: float | None, check_gpus: bool) -> Removal:
        """Replaces the removal at the level of the engine."""
        self.removed.append((tenant.name, grace))
        return self.removal
