"""The plugin's fixtures, registered by ``lab.pytest_plugin.plugin.activate``.

Every fixture attaches to a running lab. None creates or deletes one.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from lab.config import TenantSpec
from lab.config.budget import quota_lacks
from lab.errors import LabError, WaitTimeout
from lab.explain.wait_evidence import kubectl_command
from lab.gpu.simulated.devices import gpus_of
from lab.host.nvml import query
from lab.kube import Cluster
from lab.objects.views import NodeView, PodView
from lab.pytest_plugin.gpu_share import gpu_total, usable_nodes
from lab.pytest_plugin.state import ATTACHED, KEPT, NAMESPACES, PROBE_LACKING, required, uses, warn_renamed
from lab.session.lab import Lab
from lab.text import count
from lab.workloads.namespace import Inside, WorkloadNamespace
from lab.workloads.pods import cpu_pod

HOST = "host"
"""Names the lab's own cluster where a tenant could be named."""

_ATTACH_ERROR = pytest.StashKey[LabError]()


@dataclass(frozen=True)
class TenantFixture:
    """A tenant of the lab."""

    name: str
    spec: TenantSpec
    cluster: Cluster


def attached(config: pytest.Config) -> Lab:
    """Attach to the lab of this run once; later calls return the same lab or raise the same LabError."""
    if _ATTACH_ERROR in config.stash:
        raise config.stash[_ATTACH_ERROR]
    if ATTACHED not in config.stash:
        try:
            config.stash[ATTACHED] = Lab.attach(config.getoption("lab_name"))
        except LabError as error:
            config.stash[_ATTACH_ERROR] = error
            raise
    return config.stash[ATTACHED]


def matching(tenants: Sequence[TenantSpec], which: Sequence[str]) -> tuple[TenantSpec, ...]:
    """Tenants whose name or mode is in ``which``; all tenants if ``which`` is empty."""
    return tuple(tenant for tenant in tenants if not which or {tenant.name, tenant.mode} & set(which))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test by the namespaces or tenants that its marker names.

    Without a lab, or if no tenant matches, the parameter is the marker's own argument: the tests can be listed, and
    the skip reason names the missing tenant.
    """
    for fixture, marker in (("workloads", "places"), ("tenant", "tenants")):
        mark = metafunc.definition.get_closest_marker(marker)
        if mark is None or not mark.args or fixture not in metafunc.fixturenames:
            continue
        names = list(mark.args)
        with contextlib.suppress(LabError):
            tenants = attached(metafunc.config).tenants
            found = ([one.name for one in matching(tenants, [word]) if word != HOST] or [word] for word in mark.args)
            names = list(dict.fromkeys(name for group in found for name in group))
        metafunc.parametrize(fixture, names, indirect=True)
        return


def _skip_or_fail(config: pytest.Config, need: str, why: str) -> None:
    if need in required(config):
        pytest.fail(f"{why} (--lab-require {need})", pytrace=False)
    pytest.skip(why)


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest) -> None:
    """Compare the test's markers with the lab."""
    for need in ("kai", "gpus", "tenants"):
        mark = request.node.get_closest_marker(need)
        if mark is not None and (why := _lacks(request.getfixturevalue("lab"), mark)):
            _skip_or_fail(request.config, need, why)
    if request.node.get_closest_marker("devices") and not request.getfixturevalue("lab").gpus_in_containers:
        pytest.skip("needs GPUs that containers see: simulated ones of an existing cluster are the scheduler's only")
    if request.node.get_closest_marker("quota") and (why := quota_lacks(request.getfixturevalue("lab").spec)):
        pytest.skip(why)


def _lacks(lab: Lab, mark: pytest.Mark) -> str:
    if mark.name == "kai":
        return kai_lacks(lab, str(next(iter(mark.args), mark.kwargs.get("version", ""))))
    least = int(mark.kwargs.get("min", 1))
    if mark.name == "gpus":
        return gpus_lack(lab, least, int(mark.kwargs.get("nodes", 1)), int(mark.kwargs.get("per_node", 1)))
    there = len(matching(lab.tenants, mark.args))
    kind = f"tenants ({' or '.join(mark.args) or 'any'})"
    return f"needs {least} {kind}, lab {lab.spec.name} has {there}" if there < least else ""


def gpus_lack(lab: Lab, least: int, nodes: int = 1, per_node: int = 1) -> str:
    """Reason why tests may not use ``least`` GPUs, and ``per_node`` on each of ``nodes`` nodes; empty if they may."""
    there = gpu_total(lab)
    rest = "" if lab.spec.cluster.own else " that are free of others' pods and within its budget"
    if there < least:
        return f"needs {count(least, 'GPU')}, lab {lab.spec.name} has {there} ({lab.gpu_mode}){rest}"
    if nodes == per_node == 1:
        return ""
    fitting = sum(node.gpus >= per_node for node in usable_nodes(lab))
    wanted = f"needs {count(nodes, 'node')} with {count(per_node, 'GPU')} each"
    return f"{wanted}, lab {lab.spec.name} has {fitting}{rest}" if fitting < nodes else ""


def kai_lacks(lab: Lab, wanted: str) -> str:
    """Reason why the lab's KAI does not match a version specifier such as ``>=0.13``; empty if it matches."""
    if not lab.has_kai or lab.kai_version is None:
        return f"lab {lab.spec.name} has no KAI: {lab.kai_reason or 'scheduler is default'}"
    # By default a specifier does not match pre-releases.
    if not wanted or SpecifierSet(wanted).contains(lab.kai_version, prereleases=True):
        return ""
    return f"needs KAI {wanted}, lab {lab.spec.name} has {lab.kai_version}"


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config) -> Lab:
    """The running lab: ``--lab NAME``, else KAILAB_LAB, else the only one."""
    try:
        found = attached(pytestconfig)
    except LabError as error:
        pytest.fail(str(error), pytrace=False)
    if "nvidia" in required(pytestconfig) and found.gpu_mode != "nvidia":
        why = f"lab {found.spec.name} has no real GPUs ({found.gpu_mode}; --lab-require nvidia)"
        pytest.fail(why, pytrace=False)
    return found


@pytest.fixture(scope="session")
def cluster(lab: Lab) -> Cluster:
    """The lab's own cluster."""
    return lab.cluster


@pytest.fixture(scope="session")
def kind_cluster(lab: Lab, pytestconfig: pytest.Config) -> Any:
    """pytest-kind's ``KindCluster`` for the lab's cluster, with the lab's programs and kubeconfig.

    Replaces pytest-kind's own fixture, which would create a cluster and delete it at the end.
    """
    if not lab.spec.cluster.own:
        pytest.skip(f"lab {lab.spec.name} is not a kind cluster (provider {lab.spec.cluster.provider})")
    # From the plugin that pytest has loaded: pytest-kind is GPL-3.0, and kailab does not import it.
    plugin = next((p for p in pytestconfig.pluginmanager.get_plugins() if hasattr(p, "KindCluster")), None)
    if plugin is None:
        pytest.skip("pytest-kind is not loaded (pip install 'kailab-cli[test]')")
    pykube = pytest.importorskip("pykube", reason="pykube-ng is not installed; pytest-kind needs it")
    # Its constructor creates a folder .pytest-kind in the working directory.
    with contextlib.chdir(lab.paths.root):
        attached_to = plugin.KindCluster(
            lab.kind_name,
            kubeconfig=lab.paths.kubeconfig,
            image=lab.node_image or None,
            kind_path=lab.tool("kind"),
            kubectl_path=lab.tool("kubectl"),
        )
    # The last action of its create(), for a cluster that exists.
    attached_to.api = pykube.HTTPClient(pykube.KubeConfig.from_file(lab.paths.kubeconfig))
    return attached_to


@pytest.fixture(scope="session")
def queue(lab: Lab) -> str:
    """A queue for workloads: the lab file's first leaf with a GPU limit above 0, else KAI's ``default-queue``."""
    leaves = [queue for queue in lab.spec.queues if queue.name in lab.spec.leaf_queues]
    return next((q.name for q in leaves if q.gpu.limit), leaves[0].name if leaves else "default-queue")


@pytest.fixture
def tenant(request: pytest.FixtureRequest, lab: Lab) -> TenantFixture:
    """A tenant: each one that the marker ``tenants`` names, or the first."""
    spec = _tenant_spec(request, lab, getattr(request, "param", ""))
    return TenantFixture(spec.name, spec, lab.tenant(spec.name))


def _tenant_spec(request: pytest.FixtureRequest, lab: Lab, word: str) -> TenantSpec:
    """The first tenant of a name or mode, or of any."""
    found = matching(lab.tenants, [word] if word else [])
    if not found:
        _skip_or_fail(request.config, "tenants", f"lab {lab.spec.name} has no tenant {word or 'at all'}")
    return found[0]


@pytest.fixture
def new_workloads(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Callable[..., WorkloadNamespace]]:
    """Create workload namespaces: ``new_workloads()`` on the host, ``new_workloads("NAME")`` in a tenant.

    The namespaces are deleted when the test ends. If the test leases a node (``gpu_node_lease``), their pods run there.
    """
    created: list[WorkloadNamespace] = request.node.stash.setdefault(NAMESPACES, [])
    node = request.getfixturevalue("gpu_node_lease") if uses(request.node, "gpu_node_lease") else ""
    own_kai = {tenant.name for tenant in lab.tenants if tenant.mode == "own-kai"}
    if why := _probe_lacks(request.config, lab):
        pytest.skip(why)

    def create(tenant: str = "") -> WorkloadNamespace:
        opened = WorkloadNamespace.open(
            lab.spec.name,
            lab.cluster,
            request.node.name,
            tenant=tenant,
            cluster=lab.tenant(tenant) if tenant else None,
            labels={} if tenant else lab.kai_serves,
        )
        # With grace 0 the objects are deleted at once and their containers soon after; waiting for a graceful end takes
        # 2 s (kubelet 1.34 checks once a second). A pod on a real GPU holds its memory until the container has ended.
        grace = 0 if lab.gpu_mode == "simulated" else opened.grace
        # KAI updates a PodGroup whose pods are gone. Up to 0.16 it retries forever if the PodGroup is deleted
        # meanwhile: 50 requests/s for the lifetime of the scheduler (KAI-Scheduler#1945).
        groups = ("PodGroup",) if lab.has_kai and not tenant and not grace else ()
        opened = replace(opened.on(lab.spec), grace=grace, node="" if tenant in own_kai else node, with_pods=groups)
        if not _shares_gpus(lab, tenant):
            opened = replace(opened, check=_skip_fractions)
        created.append(opened)
        return opened

    yield create
    if request.node.stash.get(KEPT, False):
        return
    with contextlib.ExitStack() as stack:
        for opened in created:
            stack.callback(opened.clear)


def _shares_gpus(lab: Lab, tenant: str) -> bool:
    """Whether the KAI that schedules a tenant's pods, or the host's, admits pods with a part of a GPU."""
    own = next((one for one in lab.tenants if one.name == tenant and one.mode == "own-kai"), None)
    return own.gpu_sharing if own else lab.spec.kai.gpu_sharing


def _skip_fractions(doc: dict[str, Any]) -> None:
    """Skip the test if an object's pods ask for a part of a GPU."""
    pod = (doc.get("spec") or {}).get("template") or doc
    if PodView.of({**pod, "metadata": {"name": "", **(pod.get("metadata") or {})}}).requests.shares_gpu:
        pytest.skip("needs GPU sharing, which the lab file has off (gpuSharing: false)")


def _probe_lacks(config: pytest.Config, lab: Lab) -> str:
    """Reason why an existing cluster cannot start the suites' pods; empty if it can. Asked once in each process."""
    if PROBE_LACKING not in config.stash:
        config.stash[PROBE_LACKING] = ""
        if not lab.spec.cluster.own:
            trial = WorkloadNamespace.open(lab.spec.name, lab.cluster, "image").on(lab.spec)
            try:
                trial.submit(cpu_pod("image", scheduler=None))
                trial.running("image")
            except WaitTimeout as error:
                reason = next(iter(error.evidence), error.what)
                config.stash[PROBE_LACKING] = (
                    f"the cluster cannot run a pod of {trial.image}, the suites' image: {reason}"
                )
            finally:
                trial.clear()
    return config.stash[PROBE_LACKING]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With ``--lab-keep=failed``, keep the namespaces of a failed test, and report how to look at and remove them."""
    report = yield
    namespaces = item.stash.get(NAMESPACES, [])
    if namespaces and report.failed and report.when != "teardown" and item.config.getoption("lab_keep"):
        item.stash[KEPT] = True
        report.sections.append(("kailab keeps", "\n".join(line for one in namespaces for line in _kept(one))))
    return report


def _kept(space: WorkloadNamespace) -> Iterator[str]:
    kubectl = shlex.join(kubectl_command(space.cluster))
    where = f" in tenant {space.tenant}" if space.tenant else ""
    yield f"namespace {space.namespace}{where}; the next run, kailab verify and kailab up remove it"
    yield f"  look:   {kubectl} --namespace {space.namespace} get pods,events"
    yield f"  remove: {kubectl} delete namespace {space.namespace}"


@pytest.fixture
def workloads(
    request: pytest.FixtureRequest, lab: Lab, new_workloads: Callable[..., WorkloadNamespace]
) -> WorkloadNamespace:
    """A fresh namespace: as the marker ``places`` says, else in the ``tenant``, else on the host."""
    word = getattr(request, "param", "")
    if not word and uses(request.node, "tenant"):
        word = request.getfixturevalue("tenant").name
    if word in ("", HOST):
        return new_workloads()
    return new_workloads(_tenant_spec(request, lab, word).name)


@pytest.fixture
def place(workloads: WorkloadNamespace) -> WorkloadNamespace:
    """Deprecated name of ``workloads``."""
    warn_renamed("place", "workloads")
    return workloads


@pytest.fixture
def new_place(new_workloads: Callable[..., WorkloadNamespace]) -> Callable[..., WorkloadNamespace]:
    """Deprecated name of ``new_workloads``."""
    warn_renamed("new_place", "new_workloads")
    return new_workloads


@pytest.fixture
def namespace(workloads: WorkloadNamespace) -> str:
    """Name of the test's fresh namespace: in its ``tenant`` if it uses one, else on the host."""
    return workloads.namespace


@pytest.fixture
def probe(workloads: WorkloadNamespace) -> Callable[[PodView], Inside]:
    """Reads the environment and NVIDIA device nodes of a running pod (given as the host sees it)."""
    return workloads.look


@pytest.fixture(scope="session")
def gpu_nodes(lab: Lab) -> tuple[NodeView, ...]:
    """Nodes with GPUs that tests may use, except tenants' dedicated nodes; of each, ``gpus`` are those."""
    return usable_nodes(lab)


@pytest.fixture(scope="session")
def gpu_node(gpu_nodes: tuple[NodeView, ...]) -> NodeView:
    """One node with GPUs."""
    if not gpu_nodes:
        pytest.skip("no node has GPUs")
    return gpu_nodes[0]


@pytest.fixture(scope="session")
def gpu_uuids(lab: Lab) -> Callable[[str], frozenset[str] | None]:
    """UUIDs of a node's GPUs, from the lab file or NVML; None if only the node itself knows them."""

    def known(node: str) -> frozenset[str] | None:
        if lab.gpu_mode == "simulated":
            return frozenset(gpu.uuid for gpu in gpus_of(lab.spec.name, node, lab.spec.gpu))
        if lab.gpu_mode == "nvidia" and lab.spec.cluster.own:
            return frozenset(device.uuid for device in query().gpus)
        return None

    return known
