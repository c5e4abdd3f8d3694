"""Record names and values that KAI charts define, in tests/data/kai_renders/VERSION.json.

    python -m tests.support.kai_renders HELM kai-scheduler-v0.16.8.tgz …

The existing recordings were made this way, with helm 3, from the charts in KAI's repository at each tag, packed as its
release workflow does: the chart's version is the tag.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lab.kai import line_of
from lab.kai.chart import KaiChart
from lab.serialization import to_json
from lab.steps import helm_release
from lab.steps.kai.chart import chart_seen
from lab.tools.helm import Helm
from lab.tools.process import HostRunner, Runner

FOLDER = Path(__file__).parents[1] / "data" / "kai_renders"


def versions() -> list[str]:
    """Return the recorded versions."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def recorded(version: str) -> KaiChart:
    """Return the recording of a version."""
    data = json.loads((FOLDER / f"{version}.json").read_text())
    return KaiChart(**{key: tuple(value) if isinstance(value, list) else value for key, value in data.items()})


def seen(helm: Path, chart: Path, run: Runner) -> KaiChart:
    """Read a chart file; its version is in its Chart.yaml."""
    import yaml

    chart_yaml = helm_release.read_chart(chart, lambda inside: inside == "Chart.yaml")["Chart.yaml"]
    line = line_of(str(yaml.safe_load(chart_yaml)["version"]).removeprefix("v"))
    # rendering does not query a cluster, so the kubeconfig is never read
    return chart_seen(chart, line, Helm(run, helm, Path("/dev/null"), "none").template)


def write(chart: KaiChart) -> None:
    """Record a chart, one field a line."""
    rows = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in to_json(chart).items()]
    (FOLDER / f"{chart.version}.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        write(seen(Path(sys.argv[1]), Path(argument), HostRunner()))
