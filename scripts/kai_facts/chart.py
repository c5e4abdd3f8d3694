"""Facts of a KAI tree's chart, CRDs and support policy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_CHART = Path("deployments/kai-scheduler")
_READ = re.compile(r"\.Values\.([A-Za-z0-9_.]+)")
_HAS_KEY = re.compile(r'hasKey (\.Values\.[A-Za-z0-9_.]+) "(\w+)"')
_OWN_KEY = re.compile(r"[\"'\s]((?:kai\.scheduler|run\.ai|runai)/[\w.-]+)")
_QUEUE = re.compile(r"^kind: Queue\n.*?(?=^---|\Z)", re.DOTALL | re.MULTILINE)
_VALUE = re.compile(r"\{\{\s*\.Values\.([\w.]+)\s*\}\}")
_WEBHOOK = re.compile(r"^kind: (Mutating|Validating)WebhookConfiguration\n(?:.*\n)*?  name: (\S+)", re.MULTILINE)
_CRD_NAME = re.compile(r"^kind: CustomResourceDefinition\n(?:.*\n)*?  name: (\S+)", re.MULTILINE)
_CRD_VERSION = re.compile(r"^(?:  - |    - |    )name: (v\d\w*)$", re.MULTILINE)
_IMAGE = re.compile(r"^\s*(?:- )?image: .*?/([\w-]+):", re.MULTILINE)
_LIBRARY = re.compile(r"^\s+k8s\.io/api v0\.(\d+)\.", re.MULTILINE)
_SUPPORT = re.compile(r"^\| \**v(0\.\d+)\** \| \**(\w+)\** \| [^|]+\| \**\*?([^|*]+)\*?\** \|", re.MULTILINE)
_WINDOW = re.compile(r"^\| ((?:`v0\.\d+\.x`(?: and )?)+ tags|`main`[^|]*) \|([^|]+)\|", re.MULTILINE)
_LONG = 60


def values(root: Path) -> dict[str, Any]:
    """The chart's values by dotted key with their defaults; None for what only templates name, maps included.

    A default longer than 60 characters is written as its type: the data are facts, not copies of texts.
    """
    texts = [_HAS_KEY.sub(r"\1.\2", text) for text in _templates(root)]
    found = {key: None for text in texts for key in _READ.findall(text)}
    return found | dict(_dotted(yaml.safe_load((root / _CHART / "values.yaml").read_text())))


def unread_values(root: Path) -> set[str]:
    """Keys of the chart's values.yaml that no template reads: neither the key, nor a map above or a value below it."""
    read = {f"{key.rstrip('.')}." for text in _templates(root) for key in _READ.findall(_HAS_KEY.sub(r"\1.\2", text))}
    given = [key for key, _ in _dotted(yaml.safe_load((root / _CHART / "values.yaml").read_text()))]
    return {key for key in given if not any(one.startswith(f"{key}.") or f"{key}.".startswith(one) for one in read)}


def chart_keys(root: Path) -> set[str]:
    """Labels and annotations of KAI that the chart's templates name."""
    found = {key for text in _templates(root) for key in _OWN_KEY.findall(text)}
    return {key for key in found if not re.fullmatch(r"v\d\w*", key.partition("/")[2])}


def queues(root: Path) -> dict[str, str]:
    """Queues that the chart creates, and the parent of each; empty for a queue without one."""
    shown = values(root)
    found = {}
    for text in _templates(root):
        for block in _QUEUE.findall(text):
            named = _VALUE.sub(lambda match: str(shown.get(match[1])), block)
            name = re.search(r"^\s+name: (\S+)", named, re.MULTILINE)
            parent = re.search(r"^\s+parentQueue: (\S+)", named, re.MULTILINE)
            if name:
                found[name[1]] = parent[1] if parent else ""
    return found


def webhooks(root: Path) -> set[tuple[str, str]]:
    """Webhook configurations of the chart's templates: the name, and mutating or validating."""
    found = {(name, kind.lower()) for text in _templates(root) for kind, name in _WEBHOOK.findall(text)}
    return {(name, kind) for name, kind in found if "{" not in name}


def crds(root: Path) -> dict[str, list[str]]:
    """CRDs below deployments/ and their versions."""
    found = {}
    for path in sorted((root / "deployments").rglob("*.yaml")):
        text = path.read_text()
        if "kind: CustomResourceDefinition" in text and (match := _CRD_NAME.search(text)):
            found[match[1]] = sorted(set(_CRD_VERSION.findall(text[text.rfind("\n  versions:\n") :])))
    return found


def images(root: Path) -> set[str]:
    """Image names in the chart's values and templates, without registry and tag."""
    shown = values(root)
    named = {str(value) for key, value in shown.items() if key.lower().endswith("image.name") and value}
    return named | {name for text in _templates(root) for name in _IMAGE.findall(text)}


def binaries(root: Path) -> set[str]:
    """Programs below cmd/."""
    return {path.parent.relative_to(root / "cmd").parts[0] for path in (root / "cmd").rglob("main.go")}


def support(root: Path) -> dict[str, Any]:
    """Statements of SUPPORT.md and go.mod.

    ``LINE`` → [type, end of support]; ``kubernetes LINE`` → validated minors of Kubernetes, with the line ``main`` for
    the release's own; ``libraries`` → the Kubernetes minor whose API the release was built with.
    """
    found: dict[str, Any] = {}
    if match := _LIBRARY.search((root / "go.mod").read_text()):
        found["libraries"] = f"1.{match[1]}"
    policy = root / "SUPPORT.md"
    text = policy.read_text() if policy.exists() else ""
    for line, kind, end in _SUPPORT.findall(text):
        found[line] = [kind, end.strip()]
    for whose, window in _WINDOW.findall(text):
        minors = sorted({int(minor) for minor in re.findall(r"v1\.(\d+)\.", window)})
        for line in re.findall(r"v(0\.\d+)\.x", whose) or ["main"]:
            found[f"kubernetes {line}"] = [f"1.{minor}" for minor in minors]
    return found


def scheduler_config(root: Path) -> str:
    """The scheduler's configuration in the chart's templates; empty where an operator writes it."""
    path = root / _CHART / "templates/services/scheduler-configmap.yaml"
    return path.read_text() if path.exists() else ""


def _templates(root: Path) -> list[str]:
    folder = root / _CHART / "templates"
    return [path.read_text() for path in sorted(folder.rglob("*")) if path.suffix in (".yaml", ".tpl")]


def _dotted(data: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from _dotted(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value if len(str(value)) <= _LONG else {"type": type(value).__name__}
