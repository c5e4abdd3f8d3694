"""The GPU map on terminals of several widths, with 0, 4 and 64 GPUs, and in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from lab.gpu.map.model import GpuMap
from lab.gpu.map.text import gpu_lines
from lab.ui.gpu_bar import bar, cell, segments
from lab.ui.gpus import GpuTable, render_gpus
from lab.ui.terminal import Terminal
from tests.support.builders import node
from tests.support.gpu_map_world import GpuCluster, demo, many, pod


def lines(
    gpus: GpuMap, width: int = 80, *, terminal: bool = True, encoding: str = "utf-8", wide: int | None = None
) -> list[str]:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None, highlight=False, markup=False)
    render_gpus(gpus, "lab demo", console, wide)
    return raw.getvalue().decode(encoding).splitlines()


DEMO_80 = """\
 GPUs of lab demo: 4 GPUs on 2 nodes  10:00:00 UTC
 ○ 1 free  ◐ 1 shared  ● 1 whole  ✗ 0 over-committed  ! 1 unhealthy
 largest free share 1 · 1 pod waiting for GPUs

 kailab-demo-worker  Ready · 2 of 2 offered · NVIDIA A100-SXM4-40GB · 40 GiB
         asks       pod               tenant            queue  phase
   0 GPU-766760b2 [aaabbbbbb···] ◐ shared 75 %
      reserved by gpu-reservation-67073eedf57d56d9
      a  10240 MiB  default/infer     host              test   Running
      b  0.5        team-a/train-0    my-vcluster       test   Running
   1 GPU-fe37aee4 [aaaaaaaaaaaa] ● whole
      a  1 GPU      default/research  research-cluster         Running

 kailab-demo-worker2  Ready · 1 of 2 offered · NVIDIA A100-SXM4-40GB · 40 GiB
   0 GPU-e1279668 [!!!!!!!!!!!!] ! unhealthy (XID 79, GPU has fallen off the bu…
   1 GPU-a13f1cb9 [············] ○ free

 Waiting for GPUs
   default/big  2 GPUs  host  queue test  no nodes with enough resources were f…
"""


def test_four_gpus_are_drawn_at_80_columns() -> None:
    assert [line.rstrip() for line in lines(demo().map())] == DEMO_80.splitlines()


def test_full_uuids_and_reservations_are_shown_at_160_columns() -> None:
    shown = lines(demo().map(), 160)
    (shared,) = (line for line in shown if "shared 75 %" in line)
    assert "GPU-766760b2-f68e-5eeb-b93c-ce705ec9eaf0 [aaaaabbbbbbbbbb·····]" in shared
    assert shared.endswith("reserved by gpu-reservation-67073eedf57d56d9")


@pytest.mark.parametrize("width", [60, 80, 120, 160])
@pytest.mark.parametrize(
    "gpus", [GpuCluster(nodes=[node("a")]).map(), demo().map(), many().map()], ids=["0", "4", "64"]
)
def test_no_line_is_wider_than_the_terminal(gpus: GpuMap, width: int) -> None:
    assert max(map(len, lines(gpus, width))) <= width


def test_lab_without_gpus_is_described() -> None:
    assert lines(GpuCluster(nodes=[node("a"), node("b")]).map()) == [
        " GPUs of lab demo: no GPUs on 2 nodes  10:00:00 UTC",
        " 0 pods waiting for GPUs",
    ]


def test_64_gpus_have_a_strip_and_consecutive_free_gpus_are_merged() -> None:
    shown = lines(many().map())
    assert " gpu-node-0  ▆ █ █ █ █ ○ ○ ○  3 free" in shown
    assert " gpu-node-5  ○ ○ ○ ○ ○ ○ ✗ ○  7 free" in shown
    assert "   5 to 7        ○ 3 free" in shown
    assert any("✗ over-committed 125 %" in line for line in shown)
    at = shown.index("      a  4 GPUs     default/train-0     host    research  Running")
    assert [line[:4] for line in shown[at - 4 : at]] == ["   1", "   2", "   3", "   4"]  # one pod, named once


def test_pipe_gets_plain_lines_without_truncation() -> None:
    gpus = demo().map()
    assert lines(gpus, 40, terminal=False) == list(gpu_lines(gpus))


def test_width_draws_the_table_in_a_pipe() -> None:
    shown = lines(demo().map(), 40, terminal=False, wide=80)
    assert [line.rstrip() for line in shown] == DEMO_80.splitlines()


def test_ascii_terminal_loses_no_information() -> None:
    shown = lines(demo().map(), encoding="ascii")
    assert " . 1 free  % 1 shared  # 1 whole  X 0 over-committed  ! 1 unhealthy" in shown
    assert any("[aaabbbbbb...] % shared 75 %" in line for line in shown)
    assert not any("?" in line for line in shown)


def test_over_committed_gpu_is_red() -> None:
    cluster = GpuCluster()
    cluster.share(cluster.machine("w", 1), 0, "g", pod("a", fraction="0.9"), pod("b", fraction="0.9"))
    table = GpuTable(cluster.map(), "lab demo", Terminal())
    (line,) = (line for line in table.lines(80) if "over-committed 180 %" in line.plain)
    assert any(span.style == "bold red" and "over" in line.plain[span.start : span.end] for span in line.spans)


def test_small_window_keeps_the_summary_and_the_text_below() -> None:
    below = (Text("last change"),)
    shown = [line.plain for line in GpuTable(many().map(), "lab demo", Terminal(), 24, below).lines(80)]
    assert len(shown) == 24
    assert shown[0].startswith(" GPUs of lab demo")
    assert shown[-1] == "last change"
    assert any("more lines: enlarge the window to see them" in line for line in shown)


def test_escape_sequences_in_messages_are_removed() -> None:
    cluster = GpuCluster(pods=[pod("p", gpus=1, phase="Pending", why="\x1b[31mred\x1b[0m alert")])
    cluster.machine("w", 1)
    assert not any("\x1b" in line for line in lines(cluster.map(), 160))


@pytest.mark.parametrize(
    ("shares", "width", "cells"),
    [
        ([0.5, 0.25], 12, [6, 3]),
        ([1.0], 20, [20]),
        ([0.75, 0.5], 10, [6, 4]),
        ([0.01, 0.01], 10, [1, 1]),
        ([0.98, 0.01, 0.01], 10, [8, 1, 1]),
        ([0.0], 10, [1]),
        ([], 10, []),
        ([0.05] * 20, 10, [0, 1] * 10),
    ],
)
def test_bars_are_proportional_and_small_shares_are_visible(shares: list[float], width: int, cells: list[int]) -> None:
    found = segments(shares, width)
    assert sum(found) <= width
    assert found == cells or (len(shares) > width and sorted(found) == sorted(cells))


def test_bar_has_the_requested_width() -> None:
    assert {bar(gpu, 12, Terminal()).cell_len for gpu in many().map().gpus} == {12}
    assert {cell(gpu, Terminal()).cell_len for gpu in many().map().gpus} == {1}
