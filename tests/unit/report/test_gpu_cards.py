"""The map of GPUs as a picture: measures that fit their cards, colours that stay, marks of what changed."""

from __future__ import annotations

import pytest

from lab.gpu.map.model import GpuMap
from lab.report.gpu_cards import MARGIN, WIDTH, Card, GpuCards, Tones, fit, picture_of
from tests.support.gpu_map_world import GpuCluster, Machine, demo, many, node, pod

CHAR = 6.05


def drawn(gpus: GpuMap, before: GpuMap | None = None) -> GpuCards:
    return picture_of(gpus, "Now", Tones.over([gpus]), before)


def cards(picture: GpuCards) -> list[Card]:
    return [card for shown in picture.nodes for card in shown.cards]


@pytest.mark.parametrize("gpus", [demo().map(), many().map()], ids=["4", "64"])
def test_everything_fits_its_card(gpus: GpuMap) -> None:
    for card in cards(drawn(gpus)):
        for part in card.segments:
            assert part.x >= MARGIN
            assert part.x + part.width <= WIDTH - MARGIN + 0.05
        for row in card.rows:
            assert 28 + len(row.name) * CHAR + 6 <= WIDTH - MARGIN - len(row.asked) * CHAR + CHAR
            assert row.y + 25 < card.height - 3
        assert len(card.given) * CHAR <= WIDTH - 2 * MARGIN + 1
        assert len(card.reservation) * CHAR <= WIDTH - 2 * MARGIN + 1


def test_card_says_everything_in_words_too() -> None:
    shared, whole, broken, free = cards(drawn(demo().map()))
    assert (shared.state, shared.given) == ("◐ shared", "75 % given away, 25 % free")
    assert [(row.letter, row.name, row.asked, row.about) for row in shared.rows] == [
        ("a", "default/infer", "10240 MiB", "host · test"),
        ("b", "team-a/train-0", "0.5", "my-vcluster · test"),
    ]
    assert whole.given == "100 % given away"
    assert (broken.state, broken.kind) == ("! unhealthy", "unhealthy")
    assert broken.given.startswith("XID 79")
    assert free.given == "0 % given away, 100 % free"
    assert "GPU-766760b2-f68e-5eeb-b93c-ce705ec9eaf0" in shared.title
    assert "reserved by kai-resource-reservation/gpu-reservation-" in shared.title


def test_shares_over_one_gpu_fill_the_bar_and_no_more() -> None:
    cluster = GpuCluster()
    cluster.share(cluster.machine("w", 1), 0, "g", pod("a", fraction="0.9"), pod("b", fraction="0.9"))
    (card,) = cards(drawn(cluster.map()))
    assert (card.kind, card.fill, card.given) == ("over", 100, "180 % given away")
    assert sum(part.width for part in card.segments) == pytest.approx(WIDTH - 2 * MARGIN)


def test_many_pods_on_a_gpu_are_counted() -> None:
    cluster = GpuCluster()
    cluster.share(cluster.machine("w", 1), 0, "g", *(pod(f"p{n}", fraction="0.03") for n in range(30)))
    (card,) = cards(drawn(cluster.map()))
    assert (len(card.rows), card.more, len(card.segments)) == (3, "and 27 more", 30)
    assert {part.letter for part in card.segments} == {""}  # no room for letters, so none is cut


def test_tenants_keep_their_colour_from_picture_to_picture() -> None:
    first, second = GpuCluster(), GpuCluster()
    first.share(first.machine("w", 1), 0, "g", pod("x", tenant="b", fraction="0.5"))
    second.share(
        second.machine("w", 1), 0, "g", pod("x", tenant="a", fraction="0.5"), pod("y", tenant="b", fraction="0.1")
    )
    maps = [first.map(), second.map()]
    tones = Tones.over(maps)
    of_b = [part.tone for gpus in maps for card in cards(picture_of(gpus, "", tones)) for part in card.segments]
    assert of_b[0] == of_b[2] != of_b[1]
    assert picture_of(maps[0], "", tones).legend == ((tones.of["b"], "b"),)


def test_what_changed_is_marked() -> None:
    cluster = demo()
    machines = [Machine("kailab-demo-worker", 2), Machine("kailab-demo-worker2", 2)]
    before = GpuCluster(machines=machines, nodes=cluster.nodes).map()
    after = drawn(cluster.map(), before)
    assert [card.changed for card in cards(after)] == [True, True, True, False]
    assert after.changed
    assert not drawn(before, before).changed
    assert not drawn(before).changed


def test_cards_of_many_gpus_are_folded_under_a_strip() -> None:
    assert [(drawn(gpus).strip, drawn(gpus).folded) for gpus in (demo().map(), many(2).map(), many().map())] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_no_gpus() -> None:
    picture = drawn(GpuCluster(nodes=[node("a")]).map())
    assert (picture.summary, picture.others, picture.nodes) == ("There are no GPUs", 1, ())
    assert drawn(demo().map()).summary == "4 GPUs on 2 nodes, largest free share 1"


def test_long_names_are_cut_in_the_middle() -> None:
    assert fit("default/pod", 200) == "default/pod"
    cut = fit("namespace/" + "x" * 60 + "-worker-17", 120)
    assert len(cut) * CHAR <= 120
    assert cut.startswith("namespace")
    assert cut.endswith("17")
