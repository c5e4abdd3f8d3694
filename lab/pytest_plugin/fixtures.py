"""The fixtures of the pytest plugin; ``lab.pytest_plugin.plugin.activate`` brings them in.

Every fixture attaches to a lab that is up. None creates or deletes one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from lab.config import TenantSpec
from lab.config.labels import NODE_LABEL, namespace_labels
from lab.config.node_assignment import beside_host_kai
from lab.errors import LabError
from lab.gpu.simulated.devices import gpus_of
from lab.host.nvml import query
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.pytest_plugin.state import ATTACHED, PLACES, required
from lab.session.lab import Lab
from lab.workloads.namespace import Inside, WorkloadNamespace

HOST = "host"
"""The lab's own cluster, where a tenant could be named."""

_TROUBLE = pytest.StashKey[LabError]()


@dataclass(frozen=True)
class TenantFixture:
    """A tenant of the lab."""

    name: str
    spec: TenantSpec
    cluster: Cluster


def attached(config: pytest.Config) -> Lab:
    """The lab of this run; attached once, and a failure is remembered. Raises LabError."""
    if _TROUBLE in config.stash:
        raise config.stash[_TROUBLE]
    if ATTACHED not in config.stash:
        try:
            config.stash[ATTACHED] = Lab.attach(config.getoption("lab_name"))
        except LabError as error:
            config.stash[_TROUBLE] = error
            raise
    return config.stash[ATTACHED]


def matching(tenants: Sequence[TenantSpec], which: Sequence[str]) -> tuple[TenantSpec, ...]:
    """The tenants whose name or mode is among ``which``; all when it is empty."""
    return tuple(tenant for tenant in tenants if not which or {tenant.name, tenant.mode} & set(which))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of a test per place, or per tenant, that its marker names.

    Without a lab, or where nothing matches, the marker's own words stand in: the tests can be listed, and the
    skip says what is missing.
    """
    for fixture, marker in (("place", "places"), ("tenant", "tenants")):
        mark = metafunc.definition.get_closest_marker(marker)
        if mark is None or not mark.args or fixture not in metafunc.fixturenames:
            continue
        with contextlib.suppress(LabError):
            tenants = attached(metafunc.config).tenants
            metafunc.parametrize(fixture, _names(tenants, mark.args), indirect=True)
            return
        metafunc.parametrize(fixture, mark.args, indirect=True)
        return


def _names(tenants: Sequence[TenantSpec], which: Sequence[str]) -> list[str]:
    names: list[str] = []
    for word in which:
        found = [tenant.name for tenant in matching(tenants, [word])] if word != HOST else []
        names += found or [word]
    return list(dict.fromkeys(names))


def _lacks(config: pytest.Config, need: str, why: str) -> None:
    """Skip the test, or fail it where ``--lab-require`` insists."""
    if need in required(config):
        pytest.fail(f"{why} (--lab-require {need})", pytrace=False)
    pytest.skip(why)


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest) -> None:
    """Compare the test's markers with what the lab has."""
    checks = {"kai": _kai, "gpus": _gpus, "tenants": _tenants}
    for need, check in checks.items():
        mark = request.node.get_closest_marker(need)
        if mark is not None and (why := check(request.getfixturevalue("lab"), mark)):
            _lacks(request.config, need, why)


def _kai(lab: Lab, mark: pytest.Mark) -> str:
    return kai_lacks(lab, str(next(iter(mark.args), mark.kwargs.get("version", ""))))


def _gpus(lab: Lab, mark: pytest.Mark) -> str:
    least, there = int(mark.kwargs.get("min", 1)), gpu_total(lab)
    return f"needs {least} GPUs, lab {lab.spec.name} has {there} ({lab.gpu_mode})" if there < least else ""


def _tenants(lab: Lab, mark: pytest.Mark) -> str:
    least, there = int(mark.kwargs.get("min", 1)), len(matching(lab.tenants, mark.args))
    kind = " or ".join(mark.args) or "any"
    return f"needs {least} tenants ({kind}), lab {lab.spec.name} has {there}" if there < least else ""


def kai_lacks(lab: Lab, wanted: str) -> str:
    """Why the lab's KAI does not do for a version specifier such as ``>=0.13``; empty when it does."""
    if not lab.has_kai or lab.kai_version is None:
        return f"lab {lab.spec.name} has no KAI: {lab.kai_reason or 'scheduler is default'}"
    if not wanted:
        return ""

    # A specifier never matches pre-releases unless told to.
    fits = SpecifierSet(wanted).contains(lab.kai_version, prereleases=True)
    return "" if fits else f"needs KAI {wanted}, lab {lab.spec.name} has {lab.kai_version}"


def gpu_total(lab: Lab) -> int:
    """Allocatable GPUs of all nodes of the lab's own cluster, but for those that belong to one tenant alone."""
    return sum(node.gpus for node in shared_nodes(lab.cluster)) if lab.gpu_mode != "none" else 0


def shared_nodes(cluster: Cluster) -> tuple[NodeView, ...]:
    """The nodes that belong to no tenant alone: those that the host schedules to."""
    return tuple(node for node in map(NodeView.of, cluster.list("Node")) if NODE_LABEL not in node.labels)


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config) -> Lab:
    """The lab that is up: ``--lab NAME``, else KAILAB_LAB, else the only one there is."""
    try:
        found = attached(pytestconfig)
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    if "nvidia" in required(pytestconfig) and found.gpu_mode != "nvidia":
        what = f"lab {found.spec.name} has no real GPUs ({found.gpu_mode}; --lab-require nvidia)"
        pytest.fail(what, pytrace=False)
    return found


@pytest.fixture(scope="session")
def cluster(lab: Lab) -> Cluster:
    """The lab's own cluster."""
    return lab.cluster


@pytest.fixture(scope="session")
def kind_cluster(lab: Lab, pytestconfig: pytest.Config) -> Any:
    """pytest-kind's ``KindCluster`` for the lab's cluster, with the lab's programs and kubeconfig.

    In place of pytest-kind's own fixture, which would create a cluster, and delete it at the end.
    """
    if lab.spec.cluster.provider != "kind":
        pytest.skip(f"lab {lab.spec.name} is not a kind cluster (provider {lab.spec.cluster.provider})")
    # Taken from the plugin that pytest has loaded: pytest-kind is GPL-3.0, and kailab does not import it.
    plugin = next((p for p in pytestconfig.pluginmanager.get_plugins() if hasattr(p, "KindCluster")), None)
    if plugin is None:
        pytest.skip("pytest-kind is not loaded (pip install 'kailab[test]')")
    pykube = pytest.importorskip("pykube", reason="pykube-ng is not installed; pytest-kind needs it")
    # Its constructor makes a folder .pytest-kind in the working directory.
    with contextlib.chdir(lab.paths.root):
        attached_to = plugin.KindCluster(
            lab.kind_name,
            kubeconfig=lab.paths.kubeconfig,
            image=lab.node_image or None,
            kind_path=lab.tool("kind"),
            kubectl_path=lab.tool("kubectl"),
        )
    # What its create() does last, for a cluster that exists.
    attached_to.api = pykube.HTTPClient(pykube.KubeConfig.from_file(lab.paths.kubeconfig))
    return attached_to


@pytest.fixture(scope="session")
def queue(lab: Lab) -> str:
    """A queue for workloads: the lab file's first leaf with room for GPUs, else KAI's ``default-queue``."""
    leaves = [queue for queue in lab.spec.queues if queue.name in lab.spec.leaf_queues]
    return next((q.name for q in leaves if q.gpu.limit), leaves[0].name if leaves else "default-queue")


@pytest.fixture
def tenant(request: pytest.FixtureRequest, lab: Lab) -> TenantFixture:
    """A tenant: each that the marker ``tenants`` names, or the one of a parameter, or the first."""
    word = getattr(request, "param", "")
    found = matching(lab.tenants, [word] if word else [])
    if not found:
        _lacks(request.config, "tenants", f"lab {lab.spec.name} has no tenant {word or 'at all'}")
    return TenantFixture(found[0].name, found[0], lab.tenant(found[0].name))


@pytest.fixture
def new_place(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Callable[..., WorkloadNamespace]]:
    """Makes places: ``new_place()`` on the host, ``new_place("NAME")`` in a tenant; cleared at the end.

    Of a test that has one node's GPUs for itself (``gpu_home``), they put their pods on that node.
    """
    made: list[WorkloadNamespace] = request.node.stash.setdefault(PLACES, [])
    home = request.getfixturevalue("gpu_home") if "gpu_home" in request.fixturenames else ""
    # Beside tenants with a KAI of their own, the host's KAI looks at labelled namespaces only.
    belongs_to_host = namespace_labels("host-kai", beside_host_kai=beside_host_kai(lab.spec))
    elsewhere = {tenant.name for tenant in lab.tenants if tenant.mode == "own-kai"}

    def make(tenant: str = "") -> WorkloadNamespace:
        inside = lab.tenant(tenant) if tenant else None
        # Unique for every test in every worker: the name ends in random digits.
        labels = {} if tenant else belongs_to_host
        place = WorkloadNamespace.open(
            lab.spec.name, lab.cluster, request.node.name, tenant=tenant, cluster=inside, labels=labels
        )
        # Without grace the objects go at once and their containers a moment later, where an end that is waited for
        # takes 2 s (kubelet 1.34 looks once a second). A real GPU holds the memory of what runs on it until the end.
        grace = 0 if lab.gpu_mode == "simulated" else place.grace
        # A PodGroup that is left without its pods for a moment is written to by KAI, and up to 0.16 again and again
        # when it goes meanwhile: 50 requests a second, for as long as the scheduler lives (KAI-Scheduler#1945).
        groups = ("PodGroup",) if lab.has_kai and not tenant and not grace else ()
        place = replace(place, grace=grace, node=home if tenant not in elsewhere else "", with_pods=groups)
        made.append(place)
        return place

    yield make
    with contextlib.ExitStack() as stack:
        for place in made:
            stack.callback(place.clear)


@pytest.fixture
def place(request: pytest.FixtureRequest, lab: Lab, new_place: Callable[..., WorkloadNamespace]) -> WorkloadNamespace:
    """A fresh namespace: where the marker ``places`` says, else in the ``tenant``, else on the host."""
    word = getattr(request, "param", "")
    if not word and "tenant" in request.fixturenames:
        word = request.getfixturevalue("tenant").name
    if word in ("", HOST):
        return new_place()
    found = matching(lab.tenants, [word])
    if not found:
        _lacks(request.config, "tenants", f"lab {lab.spec.name} has no tenant {word}")
    return new_place(found[0].name)


@pytest.fixture
def namespace(place: WorkloadNamespace) -> str:
    """Name of the test's fresh namespace: in its ``tenant`` if it has one, else on the host."""
    return place.namespace


@pytest.fixture
def probe(place: WorkloadNamespace) -> Callable[[PodView], Inside]:
    """Looks into a running pod (as the host has it): its environment and NVIDIA's device nodes."""
    return place.look


@pytest.fixture(scope="session")
def gpu_nodes(cluster: Cluster) -> tuple[NodeView, ...]:
    """The nodes that have GPUs to give: those of tenants with nodes of their own are not among them."""
    return tuple(node for node in shared_nodes(cluster) if node.gpus)


@pytest.fixture(scope="session")
def gpu_node(gpu_nodes: tuple[NodeView, ...]) -> NodeView:
    """One node with GPUs."""
    if not gpu_nodes:
        pytest.skip("no node has GPUs")
    return gpu_nodes[0]


@pytest.fixture(scope="session")
def gpu_uuids(lab: Lab) -> Callable[[str], frozenset[str] | None]:
    """The UUIDs of a node's GPUs, from the lab file or NVML; None where only the node could tell them."""

    def known(node: str) -> frozenset[str] | None:
        if lab.gpu_mode == "simulated":
            return frozenset(gpu.uuid for gpu in gpus_of(lab.spec.name, node, lab.spec.gpu))
        if lab.gpu_mode == "nvidia" and lab.spec.cluster.provider == "kind":
            return frozenset(device.uuid for device in query().gpus)
        return None

    return known
