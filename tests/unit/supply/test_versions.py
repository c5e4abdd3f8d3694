"""Several versions of KAI, vCluster and Kubernetes in one supply: names, URLs, cache keys, builds, bundles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.config import LabSpec, load_profile
from lab.gpu.simulated.nvml_build import library_at_hand
from lab.operations import bundle as bundling
from lab.operations.planning import items_needed
from lab.serialization import to_json
from lab.steps.node_image import builds_needed
from lab.supply import Choice, Item, Supply, download, registry
from lab.supply.bundle import Bundle, create
from lab.supply.catalogue import load, with_tenant_images
from lab.supply.gomod import folder_of, wrapper_mod
from lab.supply.recipes import archive_path
from lab.tools.container import ContainerEngine
from tests.support.fakes import FakeRunner

TENANT_IMAGE = "ghcr.io/loft-sh/kubernetes:v{}"
KAI, OLD_KAI = Item("chart", "kai-scheduler"), Item("chart", "kai-scheduler", "v0.9.3")
Make = Callable[..., Supply]


@pytest.fixture
def supply(runner: FakeRunner) -> Make:
    """Make a supply that runs no command; its only source is a bundle unless ``sources`` is given."""

    def make(*tenants: dict[str, Any], sources: tuple[str, ...] = ("bundle",), **sections: Any) -> Supply:
        found = {"scheduler": "default", "cluster": {"workers": 4}, **sections}
        found["tenants"] = [{"mode": "own-kai", "kaiVersion": "0.16.8", **tenant} for tenant in tenants]
        found["supply"] = {"sources": sources, **found.get("supply", {})}
        return Supply(LabSpec.model_validate(found), runner, ContainerEngine(runner), engine_runs=False)

    return make


def own(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (KAI, "chart kai-scheduler"),
        (OLD_KAI, "chart kai-scheduler v0.9.3"),
        (Item("image", "docker.io/library/x:1"), "image docker.io/library/x:1"),
    ],
)
def test_item_as_text(item: Item, text: str) -> None:
    assert str(item) == text


def test_every_spelling_of_the_lab_version_is_one_item(supply: Make) -> None:
    found = supply(own("a"), kai={"version": "0.16.8"})
    spellings = ["", "0.16.8", "v0.16.8"]
    assert {found.item("chart", "kai-scheduler", version) for version in spellings} == {KAI}
    choices = found.choose([KAI, Item("chart", "kai-scheduler", "v0.16.8"), OLD_KAI])
    assert len(choices) == 3
    assert list(found.choices) == [KAI, OLD_KAI]
    assert [found.wanted(item) for item in (KAI, OLD_KAI)] == ["v0.16.8", "v0.9.3"]


def test_kai_chart_address_depends_on_its_version(supply: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "reachable", lambda host: host == "ghcr.io")
    found = supply(sources=("registry",))
    old, new = (
        "oci://ghcr.io/nvidia/kai-scheduler/kai-scheduler",
        "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler",
    )
    items = {KAI: new, OLD_KAI: old, Item("chart", "kai-scheduler", "v0.7.11"): old}
    assert {item: choice.where for item, choice in found.choose(items).items()} == items
    assert supply(sources=("registry",), kai={"version": "0.9.3"}).choose([KAI])[KAI].where == old


def test_plan_names_what_a_download_is_checked_against(supply: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "reachable", lambda host: True)
    monkeypatch.setattr(download, "size", lambda url: 0)
    kind, kubectl, vcluster = Item("binary", "kind"), Item("binary", "kubectl"), Item("chart", "vcluster")
    new = {"cluster": {"kubernetes": "1.34.5", "workers": 4}}
    found = supply(sources=("registry",), **new).choose([kind, kubectl, KAI, vcluster])
    published = "not pinned: checked against the checksum that its server publishes"
    assert {item.name: choice.verified for item, choice in found.items()} == {
        "kind": "pinned",
        "kubectl": published,
        "kai-scheduler": "not pinned: no checksum",
        "vcluster": "not pinned: no checksum",
    }
    assert to_json(found[kubectl])["verified"] == published
    pins = {"oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler:v0.16.8": "1" * 64}
    pinned = supply(sources=("registry",), supply={"pins": pins})
    assert pinned.choose([KAI])[KAI].verified == "pinned"
    assert pinned.catalogue.pin(KAI, "v0.16.8") == "1" * 64


def test_kai_chart_older_than_every_line_has_no_address() -> None:
    row = load("1.34.4").chart("kai-scheduler", "v0.1.0")
    assert row is not None
    assert row.oci == ""


def test_vcluster_chart_of_another_version_has_its_own_url_and_no_build() -> None:
    catalogue = load("1.34.4")
    plain, other = catalogue.chart("vcluster"), catalogue.chart("vcluster", "0.35.3")
    assert plain == catalogue.chart("vcluster", "0.36.1") == catalogue.charts["vcluster"]
    assert plain is not None
    assert plain.build
    assert other is not None
    assert (other.url, other.build) == ("https://charts.loft.sh/charts/vcluster-0.35.3.tgz", {})
    assert catalogue.chart("nobody") is None


def test_bundle_keeps_charts_of_two_versions_apart(supply: Make, tmp_path: Path) -> None:
    charts = [(KAI, "v0.16.8"), (OLD_KAI, "v0.9.3")]
    for _, version in charts:
        (tmp_path / version).write_text(version)
    made = create(tmp_path / "b", [(item, version, tmp_path / version) for item, version in charts])
    assert [entry.file for entry in made.entries] == [
        "charts/kai-scheduler-v0.16.8.tgz",
        "charts/kai-scheduler-v0.9.3.tgz",
    ]
    assert made.verify() == []
    found = supply(supply={"bundle": str(tmp_path / "b")})
    assert found.chart("kai-scheduler").read_text() == "v0.16.8"
    assert found.chart("kai-scheduler", "0.9.3").read_text() == "v0.9.3"
    assert found.identity(KAI) != found.identity(OLD_KAI)
    assert not found.has("chart", "kai-scheduler", "0.7.11")


def test_tenant_images_leave_the_cluster_kubernetes_unchanged() -> None:
    plain = load("1.34.4")
    assert with_tenant_images(plain, ["1.34.4"]) is plain
    more = with_tenant_images(plain, ["1.33.13", "1.34.4", "1.33.13", "1.32.7"])
    assert set(more.go) - set(plain.go) == {"kubernetes-1.33.13", "kubernetes-1.32.7"}
    assert set(more.images) - set(plain.images) == {TENANT_IMAGE.format(v) for v in ("1.33.13", "1.32.7")}
    for name, row in plain.images.items():
        assert archive_path(more.image(name), more) == archive_path(row, plain)
    assert {name: folder_of(more.go[name]) for name in plain.go} == {n: folder_of(r) for n, r in plain.go.items()}


def test_another_vcluster_has_a_recipe_for_its_image_and_chart() -> None:
    plain = load("1.34.4")
    assert with_tenant_images(plain, [], ["0.36.1"]) is plain
    more = with_tenant_images(plain, [], ["0.36.0", "0.36.1"])
    image, chart = more.image("ghcr.io/loft-sh/vcluster-oss:0.36.0"), more.chart("vcluster", "0.36.0")
    assert image.files == {"/vcluster": "go:vcluster-0.36.0/vcluster"}
    assert chart is not None
    assert chart.build == {"recipe": "vcluster-0.36.0", "folder": "chart"}
    recipe = more.go["vcluster-0.36.0"]
    assert (recipe.module, recipe.version) == ("github.com/loft-sh/vcluster", "v0.36.0")
    assert recipe.ldflags.endswith("SyncerVersion=0.36.0")
    assert plain.chart("vcluster", "0.36.0").build == {}
    assert archive_path(more.image("ghcr.io/loft-sh/vcluster-oss:0.36.1"), more)


def test_tenant_kubernetes_is_built_from_three_programs() -> None:
    catalogue = with_tenant_images(load("1.34.4"), ["1.33.13"])
    recipe, own_recipe = catalogue.go["kubernetes-1.33.13"], catalogue.go["kubernetes"]
    assert set(recipe.programs) == {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
    assert (recipe.module, recipe.version, own_recipe.version) == ("k8s.io/kubernetes", "v1.33.13", "v1.34.4")
    assert "gitVersion=v1.33.13 " in recipe.ldflags
    assert "gitMinor=33 " in recipe.ldflags
    assert "1.34" not in recipe.ldflags
    assert folder_of(recipe) != folder_of(own_recipe)
    assert folder_of(recipe).name.startswith("kubernetes-1.33.13-")
    text = wrapper_mod(recipe)
    assert "module kailab.build/kubernetes-1.33.13\n" in text
    assert "require k8s.io/client-go v0.33.13\n" in text
    row = catalogue.image(TENANT_IMAGE.format("1.33.13"))
    assert row.files["/kubernetes/kube-scheduler"] == "go:kubernetes-1.33.13/kube-scheduler"
    assert row.files["/kubernetes/kine"] == "go:kine/kine"
    assert archive_path(row, catalogue) != archive_path(catalogue.image(TENANT_IMAGE.format("1.34.4")), catalogue)


def test_each_kubernetes_version_is_one_build_step(supply: Make) -> None:
    found = supply(own("a", kubernetes="1.33.13"), own("b", kubernetes="1.33.13"), own("c"))
    names = [TENANT_IMAGE.format("1.33.13"), TENANT_IMAGE.format("1.34.4"), "registry.k8s.io/kube-proxy:v1.34.4"]
    steps = builds_needed([Choice(Item("image", name), "build", "Go modules") for name in names], found)
    assert [(step.id, step.title, [item.name for item in step.items]) for step in steps] == [
        ("supply:kubernetes-1.33.13", "Build kubernetes 1.33.13", names[:1]),
        ("supply:kubernetes", "Build kubernetes", names[1:]),
    ]
    assert steps[0].effects()[0].what == "build kubernetes 1.33.13 from Go modules, into the cache"


def test_chart_build_is_one_step(supply: Make) -> None:
    item = Item("chart", "vcluster")
    assert [step.id for step in builds_needed([Choice(item, "build", "x")], supply())] == ["supply:vcluster"]


def needed(found: Supply) -> tuple[list[str], list[str]]:
    """Required charts, and the last path components of required images of KAI and of tenants' Kubernetes."""
    items = items_needed(found.spec, found)
    assert len(set(items)) == len(items)
    images = [item.name for item in items if item.kind == "image"]
    return (
        [str(item) for item in items if item.kind == "chart"],
        [name.rpartition("/")[2] for name in images if "/kai-scheduler/" in name or "loft-sh/kubernetes" in name],
    )


def test_lab_requires_the_kai_of_every_tenant(supply: Make) -> None:
    plain = own("c", mode="default", kaiVersion=None)
    found = supply(own("a", kaiVersion="0.9.3", kubernetes="1.33.13"), own("b", kaiVersion="0.16.8"), plain)
    charts, images = needed(found)
    assert charts == ["chart vcluster", "chart kai-scheduler v0.9.3", "chart kai-scheduler"]
    assert {"scheduler:v0.9.3", "operator:v0.9.3", "scheduler:v0.16.8", "operator:v0.16.8"} < set(images)
    assert {"kubernetes:v1.33.13", "kubernetes:v1.34.4"} < set(images)


def test_items_shared_by_host_and_tenant_are_required_once(supply: Make) -> None:
    found = supply(own("a"), own("b", mode="host-kai", kaiVersion=None), scheduler="kai")
    charts, images = needed(found)
    assert charts == ["chart kai-scheduler", "chart vcluster"]
    assert images.count("scheduler:v0.16.8") == 1


def test_lab_requires_every_vcluster_chart(supply: Make) -> None:
    plain = {"mode": "default", "kaiVersion": None}
    found = supply(own("a", **plain), own("b", vcluster="0.36.0", **plain), own("c", vcluster="0.36.0", **plain))
    assert needed(found) == (["chart vcluster", "chart vcluster 0.36.0"], ["kubernetes:v1.34.4"])


def test_bundle_holds_every_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_profile("versions", ["supply.sources=[bundle]"], {})
    found = Supply(spec, FakeRunner(), ContainerEngine(FakeRunner()), engine_runs=False)

    def path(item: Item, *_: object) -> Path:
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        file.write_text(f"{item.name} {found.wanted(item)}")
        return file

    monkeypatch.setattr(found, "path", path)
    monkeypatch.setattr(bundling, "Session", lambda *_: SimpleNamespace(supply=found))
    compiled = tmp_path / "nvml" / "libnvidia-ml.so.1"
    compiled.parent.mkdir()
    compiled.write_text("compiled")
    monkeypatch.setattr(bundling, "build_library", lambda run: compiled)
    messages: list[str] = []
    bundling.create_bundle(spec, tmp_path / "all", (), (), messages.append)
    bundle = Bundle.open(tmp_path / "all")
    assert "chart kai-scheduler v0.7.11" in messages
    versions = ["v0.9.3", "v0.7.11"]
    entries = [bundle.find(Item("chart", "kai-scheduler"), version) for version in versions]
    assert [bundle.path(entry).read_text() for entry in entries if entry] == [f"kai-scheduler {v}" for v in versions]
    assert bundle.find(KAI, "v0.16.8") is None
    there = Supply(
        load_profile("versions", [f"supply.bundle={tmp_path / 'all'}"], {}),
        FakeRunner(),
        ContainerEngine(FakeRunner()),
        engine_runs=False,
    )
    library = library_at_hand(there)
    assert library is not None
    assert library.read_text() == "compiled"
    assert library_at_hand(found) is None
    assert bundle.find(Item("image", TENANT_IMAGE.format("1.34.4")))
    assert bundle.find(Item("image", "ghcr.io/nvidia/kai-scheduler/scheduler:v0.7.11"))

    bundling.create_bundle(spec, tmp_path / "one", (), ("kai-scheduler@0.9.3", "kai-scheduler"), messages.append)
    assert [entry.version for entry in Bundle.open(tmp_path / "one").entries] == ["v0.9.3", "v0.16.8"]
