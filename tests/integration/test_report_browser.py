"""The report and a comparison in a real browser: nothing overflows, the filter filters; screenshots to look at.

Screenshots go to ``report/`` in KAILAB_ARTIFACTS, or to the test's own directory. Without Chromium these tests are
skipped; KAILAB_REQUIRE=browser makes that a failure. On Debian: apt-get install chromium.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.gpu.map.model import GpuMap
from lab.report.compare_page import compare_page
from lab.report.lab_report import LabReport
from lab.report.page import write_page
from lab.report.suite_run import CaseRun, SuiteRun
from lab.tools.process import Result
from tests.support.compare_world import two_sides
from tests.support.gpu_map_world import GpuCluster, Machine, demo, many, node

# Runs at the end of the page: unfolds everything, and compares drawn elements with the available space.
MEASURE = """
<script>
for (const part of document.querySelectorAll("details")) part.open = true;
const out = [];
for (const card of document.querySelectorAll(".card")) {
  const room = card.getBoundingClientRect();
  for (const part of card.querySelectorAll("p, b, span")) {
    const box = part.getBoundingClientRect();
    if (box.left < room.left || box.top < room.top || box.right > room.right || box.bottom > room.bottom)
      out.push(card.title.split(":")[0] + ": " + part.textContent);
  }
}
const failed = [...document.querySelectorAll(".filter button")].find((b) => b.dataset.show === "failed");
if (failed) failed.click();
const shown = [...document.querySelectorAll("#tests .test")].filter((t) => !t.hidden).length;
const search = document.querySelector(".filter input");
if (search) { search.value = "nothing is called so"; search.dispatchEvent(new Event("input")); }
const none = [...document.querySelectorAll("#tests .test")].filter((t) => !t.hidden).length;
document.documentElement.dataset.measured = JSON.stringify({
  out, shown, none, wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  cards: document.querySelectorAll(".card").length, small: [...document.querySelectorAll(".card")]
    .filter((c) => c.getBoundingClientRect().width < 180).length,
});
</script>
"""

# The same for a comparison: bars lie within their tracks.
DRAWN = """
<script>
const out = [];
for (const track of document.querySelectorAll(".lane:not(.axis) .track")) {
  const room = track.getBoundingClientRect();
  for (const part of track.querySelectorAll(".bar")) {
    const box = part.getBoundingClientRect();
    if (box.left < room.left - 1 || box.right > room.right + 1 || box.top < room.top || box.bottom > room.bottom)
      out.push(part.title);
  }
}
document.documentElement.dataset.measured = JSON.stringify({
  out, wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  pictures: document.querySelectorAll(".lanes").length,
});
</script>
"""

CASES = (
    CaseRun("tests/e2e/test_kai_pods.py::test_cpu_pod[host]", "passed", 100, 0.4, 2.1, 1.1, "gw0"),
    CaseRun(
        "tests/e2e/test_kai_pods.py::test_fractions_share_one_gpu[my-vcluster]",
        "failed",
        101,
        0.4,
        60,
        1.1,
        "gw1",
        "WaitTimeout: pods half: Ready on the host: not within 60 s",
        "E   WaitTimeout: " + "pods half " * 40,
    ),
    CaseRun("tests/e2e/test_queues.py::test_unknown_queue_is_named", "skipped", 103, why="needs KAI >=0.13"),
)
FACTS = {
    "lab": "demo",
    "gpu_mode": "simulated",
    "kai_version": "0.16.8",
    "node_image": "kailab/node:" + "0123456789" * 6,
}
RECORD: dict[str, Any] = {
    "seconds": 52.3,
    "steps": [
        {"step": name, "outcome": "changed", "seconds": took, "began": began, "detail": ""}
        for name, began, took in (("cluster", 0.3, 24.2), ("kai", 25, 15.8), ("tenant:my-vcluster", 25, 18.4))
    ],
}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The folder of screenshots."""
    given = os.environ.get("KAILAB_ARTIFACTS")
    folder = Path(given).absolute() / "report" if given else tmp_path / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def empty(gpus: GpuMap) -> GpuMap:
    """Return the same nodes without pods."""
    return GpuCluster(machines=[Machine(shown.name, len(shown.gpus)) for shown in gpus.nodes]).map()


def situation(gpus: GpuMap) -> LabReport:
    run = SuiteRun(
        "demo", "2026-11-21T10:00:00+00:00", 78.2, 1, "pytest tests/e2e -n 4", FACTS, CASES, empty(gpus), gpus
    )
    return LabReport("demo", FACTS, record=RECORD, suite=run)


SIZES = {0: GpuCluster(nodes=[node("kailab-demo-worker")]).map, 4: demo().map, 64: many().map}


@pytest.mark.parametrize("width", [500, 1280])
@pytest.mark.parametrize("gpus", sorted(SIZES))
def test_nothing_sticks_out_and_the_filter_filters(
    browser: Callable[..., Result], tmp_path: Path, gpus: int, width: int
) -> None:
    page = write_page(tmp_path / "page.html", situation(SIZES[gpus]()))
    page.write_text(page.read_text() + MEASURE)
    done = browser(f"--window-size={width},900", "--enable-logging=stderr", "--dump-dom", page.as_uri())
    assert "CONSOLE" not in done.err  # no error of the script, nothing refused by the page's own policy
    found = re.search(r'data-measured="([^"]*)"', done.out)
    assert found is not None
    measured = json.loads(found.group(1).replace("&quot;", '"').replace("&amp;", "&"))
    assert measured == {"out": [], "shown": 1, "none": 0, "wider": 0, "cards": 2 * gpus, "small": 0}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("gpus", sorted(SIZES))
def test_pictures_to_look_at(
    browser: Callable[..., Result], tmp_path: Path, pictures: Path, gpus: int, scheme: str
) -> None:
    page = write_page(tmp_path / "page.html", situation(SIZES[gpus]()))
    shot = pictures / f"report-{gpus}-gpus-{scheme}.png"
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    browser("--window-size=1280,2000", *dark, f"--screenshot={shot}", page.as_uri())
    assert shot.read_bytes().startswith(b"\x89PNG")
    assert shot.stat().st_size > 50_000  # a blank picture of this size has about 10 kB


@pytest.mark.parametrize("width", [500, 1280])
def test_nothing_sticks_out_of_a_comparison(
    browser: Callable[..., Result], tmp_path: Path, pictures: Path, width: int
) -> None:
    page = tmp_path / "page.html"
    page.write_text(compare_page(two_sides()))
    shot = pictures / f"compare-{width}.png"
    browser(f"--window-size={width},2600", f"--screenshot={shot}", page.as_uri())
    assert shot.stat().st_size > 50_000
    text = page.read_text()
    # The page's policy allows no script: allow the measuring one.
    page.write_text(text.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';", 1) + DRAWN)
    done = browser(f"--window-size={width},900", "--enable-logging=stderr", "--dump-dom", page.as_uri())
    assert "CONSOLE" not in done.err
    found = re.search(r'data-measured="([^"]*)"', done.out)
    assert found is not None
    assert json.loads(found.group(1).replace("&quot;", '"')) == {"out": [], "wider": 0, "pictures": 8}
