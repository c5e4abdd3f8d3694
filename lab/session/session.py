"""A process's session on one lab: the state on disk, clients, and the lock."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.config import KaiSpec, LabSpec, TenantSpec, dump_spec, load_dumped, resolve_spec
from lab.config.added_tenants import dump_added, load_added, with_added
from lab.config.budget import with_budget
from lab.config.gpu import GpuSpec
from lab.config.sections import ClusterSpec
from lab.engine.events import Bus
from lab.engine.journal import Journal
from lab.errors import Busy, LabError, NoLab
from lab.files import write_atomic
from lab.kube import Cluster
from lab.paths import LabPaths, lab_names
from lab.session.context import LabContext
from lab.session.user_kubeconfig import renew_copy
from lab.supply import Supply
from lab.tools.container import ContainerEngine
from lab.tools.lock import lock_now
from lab.tools.process import HostRunner

_RESOLVED: Mapping[str, type[ClusterSpec] | type[KaiSpec] | type[GpuSpec]] = {
    "cluster": ClusterSpec,
    "kai": KaiSpec,
    "gpu": GpuSpec,
}
"""Sections of the lab file that may have ``auto``, or values of an existing cluster, in place of the file's."""


@dataclass
class Session:
    """One lab with its state, command runner and clients.

    ``asked`` is the lab file as given, ``spec`` the same with ``auto`` resolved, ``facts`` the resolved values.
    ``added`` are tenants from 'kailab tenant add'; the ``spec`` of an attached session includes them.
    """

    asked: LabSpec
    spec: LabSpec
    facts: dict[str, str] = field(default_factory=dict)
    engine_name: str = "docker"
    engine_runs: bool = True
    bus: Bus = field(default_factory=Bus)
    cancel: threading.Event = field(default_factory=threading.Event)
    added: tuple[TenantSpec, ...] | None = None

    def __post_init__(self) -> None:
        self.paths = LabPaths(self.spec.name)
        self.runner = HostRunner(self.cancel, self.paths.log)
        self.engine = ContainerEngine(self.runner, self.engine_name)
        # 'kailab up' starts from the lab file, which lacks added tenants, and must keep them
        self._set_tenants(self.asked, _saved_added(self.paths) if self.added is None else self.added)
        self.journal = Journal(self.paths.journal)
        self._clusters: dict[str, Cluster] = {}
        self._lock = threading.Lock()

    @classmethod
    def attached(cls, name: str) -> Session:
        """The session of a lab with saved state. Raises NoLab, LabError."""
        paths = LabPaths(name)
        try:
            saved = json.loads(paths.spec.read_text())
            asked = load_dumped(json.dumps(saved["asked"]))
            # no validation: this may break a lab file's rules (host-kai tenants with the default scheduler)
            resolved = saved["resolved"]
            sections = {
                key: model.model_validate(resolved[key], by_alias=True, by_name=False)
                for key, model in _RESOLVED.items()
                if key in resolved
            }
            spec = asked.model_copy(update={"scheduler": resolved["scheduler"], **sections})
            added, facts = load_added(saved.get("added")), dict(saved["facts"])
            return cls(asked, with_budget(with_added(spec, added)), facts, facts.get("engine", "docker"), added=added)
        except (FileNotFoundError, NotADirectoryError):
            names = ", ".join(lab_names()) or "none"
            raise NoLab(f"no lab named {name!r} exists (labs on this machine: {names})", fix="kailab up") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabError(
                f"the state of lab {name!r} cannot be read: {type(error).__name__}: {error}",
                fix=f"kailab down --name {name}, then kailab up",
            ) from error

    def save(self) -> None:
        """Write the lab's spec and facts atomically. Raises LabError."""
        resolved = {key: getattr(self.spec, key).model_dump(mode="json", by_alias=True) for key in _RESOLVED}
        data = {
            "asked": json.loads(dump_spec(self.asked)),
            "added": dump_added(self.added or ()),
            "resolved": {"scheduler": self.spec.scheduler, **resolved},
            "facts": self.facts,
        }
        try:
            self.paths.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(self.paths.spec, json.dumps(data, indent=1) + "\n")
        except OSError as error:
            raise LabError(
                f"the lab's state cannot be written to {self.paths.root}: {error.strerror}",
                fix="free disk space or set KAILAB_STATE to a writable directory",
            ) from error

    @property
    def added_names(self) -> tuple[str, ...]:
        """Names of the tenants from 'kailab tenant add'."""
        return tuple(tenant.name for tenant in self.added or ())

    @property
    def added_notices(self) -> tuple[str, ...]:
        """Notices of 'kailab up', which neither changes nor removes these tenants."""
        return tuple(
            f"tenant {name} was added by 'kailab tenant add' and is left alone; kailab tenant remove {name} removes it"
            for name in self.added_names
        )

    def refresh(self) -> None:
        """Reload the saved state, which another process may have changed before this one got the lock."""
        saved = Session.attached(self.spec.name)
        self.spec, self.facts = saved.spec, saved.facts
        self._set_tenants(saved.asked, saved.added or ())

    def spec_with(self, asked: LabSpec, added: tuple[TenantSpec, ...]) -> LabSpec:
        """The spec with other tenants: the lab file's, then the added ones."""
        return with_budget(with_added(self.spec.model_copy(update={"tenants": asked.tenants}), added))

    def change_tenants(self, asked: LabSpec, added: tuple[TenantSpec, ...]) -> None:
        """Replace the tenants by those of a lab file and the added ones; ``save`` writes them."""
        self._set_tenants(asked, added)
        self.spec = self.spec_with(asked, added)
        self.facts["tenants"] = self.spec.tenants_in_words

    def replace_tenant(self, tenant: TenantSpec) -> None:
        """Replace the tenant of that name; ``save`` writes it."""

        def replaced(tenants: tuple[TenantSpec, ...]) -> tuple[TenantSpec, ...]:
            return tuple(tenant if one.name == tenant.name else one for one in tenants)

        asked = self.asked.model_copy(update={"tenants": replaced(self.asked.tenants)})
        self.change_tenants(asked, replaced(self.added or ()))

    def change_kai(self, kai: KaiSpec) -> None:
        """Replace the host's KAI; ``save`` writes it."""
        self.spec = self.spec.model_copy(update={"kai": kai})
        self.facts["kai_version"] = kai.version
        self._set_tenants(self.asked.model_copy(update={"kai": kai}), self.added or ())

    def _set_tenants(self, asked: LabSpec, added: tuple[TenantSpec, ...]) -> None:
        known = {tenant.name for tenant in asked.tenants}
        self.asked, self.added = asked, tuple(tenant for tenant in added if tenant.name not in known)
        whole = with_added(asked, self.added)
        self.supply = Supply(whole, self.runner, self.engine, engine_runs=self.engine_runs)

    def renew_credentials(self) -> None:
        """Use the user's credentials for an existing cluster as they are now; before the first call of its client."""
        renew_copy(self.spec, self.paths, self.journal)

    def cluster(self, tenant: str = "") -> Cluster:
        """The lab's cluster, or a tenant's; connected on first use.

        An existing cluster that the lab has not used yet is that of the user's kubeconfig, for ``kailab plan``.
        """
        with self._lock:
            if tenant not in self._clusters:
                path = self.paths.tenant_kubeconfig(tenant) if tenant else self.paths.kubeconfig
                theirs = self.spec.cluster.kubeconfig
                if tenant or theirs is None:
                    cluster = Cluster(path)
                elif path.exists():
                    cluster = Cluster(path, origin=f"context {self.spec.cluster.context} of {theirs.expanduser()}")
                else:
                    cluster = Cluster(theirs.expanduser(), self.spec.cluster.context)
                cluster.cancel = self.cancel
                self._clusters[tenant] = cluster
            return self._clusters[tenant]

    def scope(self, step: str) -> LabContext:
        return LabContext(
            step,
            self.spec,
            self.paths,
            self.runner,
            self.journal,
            self.bus,
            self.supply,
            self.engine,
            self.cluster,
            images_in_nodes=self.spec.cluster.own,
        )

    def locked(self) -> contextlib.AbstractContextManager[object]:
        """The lab's lock. Raises Busy, or LabError if the state cannot be written."""
        held = lock_now(self.paths.lock)
        if held is not None:
            return held
        what = f"another kailab process is changing lab {self.spec.name!r}"
        raise Busy(what, fix="wait for it, or stop it with Ctrl-C")

    def close(self) -> None:
        for cluster in self._clusters.values():
            cluster.close()


def _saved_added(paths: LabPaths) -> tuple[TenantSpec, ...]:
    """The added tenants of the saved state; empty if it is missing or unreadable."""
    try:
        return load_added(json.loads(paths.spec.read_text()).get("added"))
    except (OSError, ValueError, AttributeError):
        return ()


def saved_engine(paths: LabPaths) -> str:
    """The container engine of the saved state; empty if it is missing or unreadable."""
    try:
        return str(json.loads(paths.spec.read_text())["facts"].get("engine", ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""


def name_of(name: str | None) -> str:
    """Name of the lab to use: ``name``, KAILAB_LAB, that of ./lab.yaml, or the only lab.

    Raises NoLab if no lab exists, or several do.
    """
    if found := name or os.environ.get("KAILAB_LAB"):
        return found
    names = lab_names()
    if Path("lab.yaml").is_file():
        mine = resolve_spec(None, None, ()).name
        if mine in names or not names:
            return mine
    if len(names) > 1:
        raise NoLab(f"several labs exist: {', '.join(names)}", fix="select one with --name")
    if not names:
        raise NoLab("no lab is up on this machine", fix="kailab up")
    return names[0]
