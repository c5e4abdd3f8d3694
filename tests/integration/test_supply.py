"""Bundles, and all items of a lab from a real OCI registry; test_offline.py has a lab from a bundle alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lab.config import load_profile
from lab.kube import Cluster
from lab.operations.planning import items_needed, resolve_scheduler
from lab.paths import assets, cache_root
from lab.supply import Item, Supply
from lab.supply.cache import key_of, place
from lab.supply.catalogue import kind_node
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from scripts.pins import image_digest
from tests.integration.conftest import Cli
from tests.integration.local_registry import renamed, serving

COREDNS = "/coredns:"
RELEASED_CNI = """apiVersion: v1
kind: ConfigMap
metadata: {name: released-cni, namespace: kube-system}
"""
ONLY_DEFAULT = ("--set", "scheduler=default", "--set", "gpu.mode=none", "--set", "queues=[]")


def own_cache(cli: Cli, name: str, *shared: str) -> None:
    """Give the command its own cache with parts of the real one; both keep the record of node images in use."""
    folder = cli.root / name
    folder.mkdir()
    for made in ("used", "locks", *shared):
        (cache_root() / made).mkdir(parents=True, exist_ok=True)
        (folder / made).symlink_to(cache_root() / made)
    cli.env["KAILAB_CACHE"] = str(folder)


def test_damaged_file_of_a_bundle_is_named(cli: Cli) -> None:
    bundle = cli.root / "offline"
    cli("bundle", "create", "--profile", "minimal", *ONLY_DEFAULT, "--out", str(bundle))
    assert "all" in cli("bundle", "verify", str(bundle)).out
    shown = cli("bundle", "show", str(bundle), "--json").json()
    assert any(entry["name"].startswith("docker.io/kindest/node") for entry in shown["entries"])

    victim = max((path for path in bundle.rglob("*.tar") if path.is_file()), key=lambda path: -path.stat().st_size)
    # the bundle shares its files with the cache: break the link before breaking the file
    body = bytearray(victim.read_bytes())
    body[len(body) // 2] ^= 1
    victim.unlink()
    victim.write_bytes(body)
    wrong = cli("bundle", "verify", str(bundle), "--json", code=1).json()
    assert len(wrong["wrong"]) == 1
    assert victim.name in wrong["wrong"][0]


@dataclass(frozen=True)
class Registry:
    """A real OCI registry (distribution, built from its Go module) on this machine.

    Its content stays in the cache for the next run: an image is pushed once. The folder's name identifies the content.
    """

    address: str
    folder: Path
    images: tuple[Item, ...]
    """The items of the profile that a registry can have."""
    no_kai: str

    @property
    def full(self) -> Path:
        """Exists when everything is pushed."""
        return self.folder / "full"


@pytest.fixture
def registry(engine: HostRunner, tmp_path: Path) -> Iterator[Registry]:
    spec = load_profile("minimal", ["gpu.mode=none"])
    supply = Supply(spec, engine, ContainerEngine(engine))
    if not supply.has("binary", "registry"):
        pytest.skip(f"no registry program: {supply.choices[Item('binary', 'registry')].why}")
    resolved, no_kai = resolve_scheduler(spec, supply)
    needed = [item for item in items_needed(resolved, supply) if item.kind == "image"]
    rows = {item: supply.catalogue.image(item.name) for item in needed}
    # a released node image contains those of the control plane and CoreDNS
    images = tuple(item for item, row in rows.items() if not row.local and not row.in_node and COREDNS not in item.name)
    folder = place("test-registry", "of", key_of([supply.identity(item) for item in images], no_kai, "released node"))
    for other in folder.parent.glob("*"):
        if other != folder:
            shutil.rmtree(other)
    with serving(supply.binary("registry"), folder, tmp_path) as address:
        yield Registry(address, folder, images, no_kai)


def push(registry: Registry, supply: Supply, docker: ContainerEngine, engine: HostRunner, folder: Path) -> None:
    """Push missing items to the registry, as a user who mirrors public registries does."""
    for item in registry.images:
        target = f"{registry.address}/{item.name.partition('/')[2]}"
        docker.call("load", "-q", "-i", str(renamed(supply.path(item), target, folder)))
        if item == kind_node(supply.spec.cluster.kubernetes):
            released_node(target, supply, docker)
        docker.call("push", "-q", target)
        docker.call("rmi", target)
    if not registry.no_kai:
        target = f"oci://{registry.address}/kai-scheduler/kai-scheduler"
        engine.run([supply.binary("helm"), "push", "--plain-http", supply.chart("kai-scheduler"), target])
    registry.full.touch()


def released_node(name: str, supply: Supply, docker: ContainerEngine) -> None:
    """Give a node image what kind's releases have: images that are not unpacked, and a CNI (kind v0.33.0, nodeimage).

    The CNI is this repository's, for one node, as kindnet cannot be built here.
    """
    images = [row.reference for row in supply.catalogue.images.values() if row.in_node or COREDNS in row.reference]
    archives = [supply.image(reference) for reference in images]
    mounts = [word for folder in {path.parent for path in archives} for word in ("-v", f"{folder}:{folder}:ro")]
    container = "kailab-it-released-node"
    docker.remove(container)
    docker.call(
        "run",
        "-d",
        "--privileged",
        "--network",
        "none",
        "--name",
        container,
        *mounts,
        "--entrypoint",
        "containerd",
        name,
    )
    ctr = ["ctr", "-n", "k8s.io", "images"]
    try:
        docker.exec(container, ["sh", "-c", "until ctr version >/dev/null 2>&1; do sleep 0.1; done"], timeout=60)
        for archive in archives:
            docker.exec(container, [*ctr, "import", "--no-unpack", "--digests", str(archive)])
        # kubeadm's version
        coredns = next(reference for reference in images if COREDNS in reference)
        docker.exec(container, [*ctr, "tag", coredns, f"{coredns.rpartition(':')[0]}:v1.12.1"])
        conflist = (assets("kind") / "cni" / "conflist.json").read_text().replace("POD_CIDR", "10.244.0.0/24")
        docker.write_file(container, "/etc/cni/net.d/10-released.conflist", conflist)
        docker.write_file(container, "/kind/manifests/default-cni.yaml", RELEASED_CNI)
        entry = ["--change", 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]', "--change", "CMD []"]
        docker.call("commit", *entry, container, name)
    finally:
        docker.remove(container)


@pytest.mark.timeout(1800)
def test_lab_through_a_registry(cli: Cli, engine: HostRunner, registry: Registry) -> None:
    """Node image, KAI's images and its chart (OCI) come from a registry that replaces the public ones."""
    spec = load_profile("minimal", ["gpu.mode=none"])
    docker = ContainerEngine(engine)
    supply = Supply(spec, engine, docker)
    if not registry.full.exists():
        push(registry, supply, docker, engine, cli.root)
    no_kai = registry.no_kai
    hosts = dict.fromkeys(item.name.partition("/")[0] for item in registry.images)
    mirrors = ", ".join(f"{host}: {registry.address}" for host in hosts)
    # every image by its digest; those of the catalogue are upstream's, and these images were built here
    known = {item.name: image_digest(f"{registry.address}/{item.name.partition('/')[2]}") for item in registry.images}
    pins = ", ".join(f"'{name}': '{digest}'" for name, digest in known.items())
    # programs may come from the cache; items that a registry can have must come from it
    args = (
        "--profile",
        "minimal",
        "--name",
        "it-registry",
        "--set",
        "gpu.mode=none",
        "--set",
        f"supply.mirrors={{{mirrors}}}",
        "--set",
        f"supply.pins={{{pins}}}",
        "--set",
        "supply.sources=[registry, present, build]",
    )
    cli.labs.append("it-registry")
    own_cache(cli, "cache", "go", "rootfs", "layers")
    plan = cli("plan", *args, "--json").json()
    sources = {entry["name"]: entry["source"] for entry in plan["supply"]}
    assert kind_node(spec.cluster.kubernetes).name in known
    assert {sources[name] for name in known} == {"registry"}
    assert not [name for name in sources if "/etcd:" in name], "a released node image has etcd"
    if not no_kai:
        assert sources["kai-scheduler"] == "registry"
    verified = {entry["name"]: entry.get("verified") for entry in plan["supply"]}
    assert {verified[name] for name in known} == {"pinned"}
    up = cli("up", *args, "--yes", "--json").json()
    assert up["ok"]
    assert up["facts"]["scheduler"] == ("default" if no_kai else "kai")

    # a pod whose image no node has: containerd pulls it through the mirror
    cluster = Cluster(Path(up["kubeconfig"]))
    assert cluster.get("ConfigMap", "released-cni", "kube-system"), "kind applies the node image's own CNI"
    (dns,) = cluster.list("Deployment", "kube-system", labels="k8s-app=kube-dns")
    assert dns["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":v1.12.1")
    source = "registry.k8s.io/pause:3.10.1"
    docker.call("load", "-q", "-i", str(supply.image(source)))
    docker.call("tag", source, f"{registry.address}/it/pulled:1")
    docker.call("push", "-q", f"{registry.address}/it/pulled:1")
    docker.call("rmi", f"{registry.address}/it/pulled:1", source)
    cluster.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "pulled", "namespace": "default"},
                "spec": {"containers": [{"name": "main", "image": f"{next(iter(hosts))}/it/pulled:1"}]},
            }
        ]
    )
    cluster.wait_ready("Pod", {"pulled"}, "default", timeout=120)
    cluster.close()
    cli("down", "--name", "it-registry", "--images")


def test_build_that_was_killed_goes_on(engine: HostRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted build leaves nothing that looks complete, and the next one succeeds."""
    import threading

    from lab.errors import Interrupted
    from lab.supply import gomod

    monkeypatch.setenv("KAILAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GOCACHE", str(tmp_path / "go-build"))
    spec = load_profile("minimal")
    cancel = threading.Event()
    runner = HostRunner(cancel)
    if runner.which("go") is None:
        pytest.skip("no go command")
    # the smallest: it is built from scratch, Go's own library included
    recipe = replace(Supply(spec, runner, ContainerEngine(runner)).catalogue.go["kind"])

    def stop(text: str, done: int | None, total: int | None) -> None:
        if done and done > 5:
            cancel.set()

    with pytest.raises(Interrupted):
        gomod.build(recipe, runner, stop)
    assert not gomod.folder_of(recipe).exists()
    assert not [
        path for path in (tmp_path / "cache" / "go").iterdir() if path.is_dir() and not path.name.startswith(".work")
    ]
    folder = gomod.build(recipe, HostRunner(), lambda text, done, total: None)
    assert (folder / "kind").stat().st_mode & 0o111
