"""The GPU map on the report page: proportional bars, text, stable colours, and marked changes."""

from __future__ import annotations

import re

from lab.gpu.map.legend import letter
from lab.gpu.map.model import Gpu, GpuMap
from lab.report.gpu_picture import GpuPicture, bar, changed, tones_of, tooltip, usage
from lab.report.templates import render
from tests.support.gpu_map_world import GpuCluster, Machine, demo, many, node, pod


def drawn(gpus: GpuMap) -> GpuPicture:
    return GpuPicture("Now", gpus, tones_of([gpus]))


def words(gpus: GpuMap) -> str:
    """The text of the page without tags."""
    html = render("page.html.j2", **PAGE, pictures=[drawn(gpus)])
    return " ".join(re.sub(r"<[^>]*>", " ", html.partition("<main>")[2].partition('<section id="facts">')[0]).split())


PAGE = {
    **dict.fromkeys(("warning", "simulated", "suite", "cases", "outcomes", "notes", "facts"), ()),
    "steps": {"lanes": ()},
    "tests": {"lanes": ()},
    "lab": "demo",
    "script": "",
}


def test_card_has_all_facts_as_text() -> None:
    text = words(demo().map())
    assert "4 GPUs on 2 nodes, largest free share 1 ; 1 node without GPUs" in text
    shared = "GPU 0 ◐ shared GPU-766760b2 a b 75 % used, 25 % free reserved by gpu-reservation-67073eedf57d56d9"
    assert f"{shared} a default/infer 10240 MiB host · test b team-a/train-0 0.5 my-vcluster · test" in text
    assert "GPU 1 ● whole GPU-fe37aee4 a 100 % used" in text
    assert "GPU 0 ! unhealthy GPU-e1279668 XID 79, GPU has fallen off the bus" in text
    assert "GPU 1 ○ free GPU-a13f1cb9 0 % used, 100 % free" in text
    assert "Waiting for GPUs default/big 2 GPUs host · queue test" in text


def test_tooltip_has_all_facts() -> None:
    lines = tooltip(demo().map().gpus[0]).splitlines()
    assert lines[1] == "GPU-766760b2-f68e-5eeb-b93c-ce705ec9eaf0"
    assert lines[3].startswith("reserved by kai-resource-reservation/gpu-reservation-")
    assert lines[4] == "default/infer: 10240 MiB, Running, queue test"


def one_gpu(*fractions: str) -> Gpu:
    cluster = GpuCluster()
    pods = (pod(f"p{n}", fraction=fraction) for n, fraction in enumerate(fractions))
    cluster.share(cluster.machine("w", 1), 0, "g", *pods)
    (gpu,) = cluster.map().gpus
    return gpu


def test_over_committed_gpu_fills_the_bar_exactly() -> None:
    gpu = one_gpu("0.9", "0.9")
    assert usage(gpu) == "180 % used"
    assert [(width, letter) for _, width, letter in bar(gpu)] == [(50.0, "a"), (50.0, "b")]


def test_pods_beyond_the_limit_are_counted() -> None:
    cluster = GpuCluster()
    cluster.share(cluster.machine("w", 1), 0, "g", *(pod(f"p{n}", fraction="0.03") for n in range(30)))
    gpus = cluster.map()
    assert {letter for _, _, letter in bar(gpus.gpus[0])} == {""}  # too narrow for letters
    assert len(bar(gpus.gpus[0])) == 30
    assert "and 27 more" in words(gpus)
    assert (letter(25), letter(26)) == ("z", "+")


def test_tenants_keep_their_colour_across_pictures() -> None:
    first, second = GpuCluster(), GpuCluster()
    first.share(first.machine("w", 1), 0, "g", pod("x", tenant="b", fraction="0.5"))
    second.share(
        second.machine("w", 1), 0, "g", pod("x", tenant="a", fraction="0.5"), pod("y", tenant="b", fraction="0.1")
    )
    maps = [first.map(), second.map()]
    tones = tones_of(maps)
    assert tones == {"": 0, "a": 1, "b": 2}
    assert [GpuPicture("", gpus, tones).legend for gpus in maps] == [[(2, "b")], [(1, "a"), (2, "b")]]


def test_changed_gpus_are_marked() -> None:
    cluster = demo()
    machines = [Machine("kailab-demo-worker", 2), Machine("kailab-demo-worker2", 2)]
    before, after = GpuCluster(machines=machines, nodes=cluster.nodes).map(), cluster.map()
    marks = changed(before, after)
    assert [gpu.uuid in marks for gpu in after.gpus] == [True, True, True, False]
    assert changed(before, before) == frozenset()
    assert changed(GpuCluster(nodes=[node("a")]).map(), after) == frozenset()


def test_cards_of_many_gpus_are_collapsed_under_a_strip() -> None:
    pages = [
        render("page.html.j2", **PAGE, pictures=[drawn(gpus)]) for gpus in (demo().map(), many(2).map(), many().map())
    ]
    assert [('<table class="strip">' in page, "All GPUs, one by one" in page) for page in pages] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_lab_without_gpus_is_described() -> None:
    assert "No GPUs ; 1 node without GPUs" in words(GpuCluster(nodes=[node("a")]).map())
