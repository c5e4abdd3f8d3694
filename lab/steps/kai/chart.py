"""KAI's chart file: its summary, and the objects that its hook Jobs would apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lab.errors import StepFailed
from lab.kai import VersionLine
from lab.kai.chart import KaiChart, chart_of
from lab.steps import helm_release

Json = dict[str, Any]
Template = Callable[..., tuple[Json, ...]]
"""``lab.tools.helm.Helm.template``."""

_VALUES, _TEMPLATES = "values.yaml", "templates/"


def chart_seen(path: Path, line: VersionLine, template: Template) -> KaiChart:
    """Summary of a chart's .tgz, rendered with its default values. Raises LabError, CommandFailed."""
    import yaml

    texts = helm_release.read_chart(path, lambda inside: inside == _VALUES or inside.startswith(_TEMPLATES))
    values = yaml.safe_load(texts.pop(_VALUES, "")) or {}
    rendered = template(line.release, path, line.namespace, {})
    crds = helm_release.chart_documents(path, "crds")
    return chart_of(line.version, values, texts, crds, rendered, applied_by_jobs(rendered))


def applied_by_jobs(rendered: Iterable[Json]) -> list[Json]:
    """The objects that rendered ConfigMaps contain as text, for hook Jobs to apply."""
    import yaml

    texts = [
        text
        for doc in rendered
        if doc.get("kind") == "ConfigMap"
        for name, text in (doc.get("data") or {}).items()
        if name.endswith((".yaml", ".yml"))
    ]
    docs = [doc for text in texts for doc in yaml.safe_load_all(text)]
    return [doc for doc in docs if isinstance(doc, dict) and "kind" in doc and "metadata" in doc]


def config_documents(rendered: Iterable[Json]) -> list[Json]:
    """The Config: a hook of the chart, or in the ConfigMap of kai-config-deployer. Raises StepFailed."""
    rendered = list(rendered)
    found = [doc for doc in (*rendered, *applied_by_jobs(rendered)) if doc["kind"] == "Config"]
    if len(found) != 1:
        raise StepFailed(
            f"KAI's chart rendered {len(found)} Config objects instead of one",
            fix="set config_template = '' for this version in lab/kai/lines, so that the chart's Jobs create it",
        )
    return found
