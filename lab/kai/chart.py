"""A summary of a KAI chart by names, and the differences between it and a line's data. Pure.

Of components that the operator creates at run time, a chart shows only the values key and the image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from lab.kai.model import HelmKeys, VersionLine

Json = Mapping[str, Any]

_VALUES = re.compile(r"\.Values\.([A-Za-z0-9_.]+)")
_ALONE = re.compile(r"^\s*kind: (ConfigMap|Config|Queue)\b", re.MULTILINE)
_HOOK, _POLICY = "helm.sh/hook", "helm.sh/hook-delete-policy"
_PODS = ("Deployment", "DaemonSet", "Job")
_CRD = "CustomResourceDefinition"


@dataclass(frozen=True)
class KaiChart:
    """Names in a chart, each tuple sorted."""

    version: str
    values: tuple[str, ...]  # dotted keys of values.yaml and of templates
    objects: tuple[str, ...]  # ``Kind/name`` of all objects rendered with the default values, hooks included
    inside: tuple[str, ...]  # ``Kind/name`` of objects in the ConfigMaps that hook Jobs apply
    crds: tuple[str, ...]  # CRDs of the folder crds/
    images: tuple[str, ...]  # image names, without registry and tag, in the values and in rendered pods
    hook_images: tuple[str, ...]  # images of the hook Jobs
    lasting_jobs: tuple[str, ...]  # hook Jobs that are not deleted before they are created again
    priorities: tuple[str, ...]  # ``name=value`` of each PriorityClass
    templates: tuple[str, ...]  # files below templates/ with ConfigMaps, Queues or a Config


def chart_of(
    version: str,
    values: Json,
    templates: Mapping[str, str],
    crds: Iterable[Json],
    rendered: Iterable[Json],
    inside: Iterable[Json],
) -> KaiChart:
    """The summary of a chart.

    ``version`` has no leading v; ``templates`` are texts by path below the chart; ``crds`` are the documents of crds/;
    ``rendered`` are all objects of ``helm template`` with the default values; ``inside`` are objects that rendered
    ConfigMaps contain as text.
    """
    objects = list(rendered)
    hooks = [doc for doc in objects if doc["kind"] == "Job" and _HOOK in _annotations(doc)]
    read = {key for text in templates.values() for key in _VALUES.findall(text)}
    return KaiChart(
        version=version,
        values=_sorted({*_dotted(values), *read}),
        objects=_sorted(_title(doc) for doc in objects),
        inside=_sorted(_title(doc) for doc in inside),
        crds=_sorted(doc["metadata"]["name"] for doc in crds if doc["kind"] == _CRD),
        images=_sorted({*_image_names(values), *(name for doc in objects for name in _images_of(doc))}),
        hook_images=_sorted(name for doc in hooks for name in _images_of(doc)),
        lasting_jobs=_sorted(
            doc["metadata"]["name"]
            for doc in hooks
            if "before-hook-creation" not in _annotations(doc).get(_POLICY, "before-hook-creation")
        ),
        priorities=_sorted(
            f"{doc['metadata']['name']}={doc['value']}" for doc in objects if doc["kind"] == "PriorityClass"
        ),
        templates=_sorted(path for path, text in templates.items() if "/_" not in path and _ALONE.search(text)),
    )


def differences(line: VersionLine, chart: KaiChart) -> list[str]:
    """Differences between the line's data and the chart, one line each."""
    return [*_values(line, chart), *_objects(line, chart), *_install(line, chart)]


def _values(line: VersionLine, chart: KaiChart) -> Iterator[str]:
    for field in fields(HelmKeys):
        key = getattr(line.helm, field.name)
        if key and key not in chart.values:
            yield f"helm.{field.name}: the chart has no value {key}"
    for name, key in line.deployments.items():
        if key not in chart.values:
            yield f"deployments.{name}: the chart has no value {key}"
        if name in line.by_operator and (f"{key}.enabled" in chart.values) is not line.component_switch:
            yield f"component_switch is {line.component_switch}, but the chart's {key}.enabled contradicts it"


def _objects(line: VersionLine, chart: KaiChart) -> Iterator[str]:
    own = [name for name in line.deployments if name not in line.by_operator]
    yield from _both("Deployment", own, _named("Deployment", chart.objects))
    webhooks = {name for name in line.webhooks if name not in line.by_operator}
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    rendered = {name for kind in kinds for name in _named(kind, chart.objects)}
    yield from _both("webhook configuration", webhooks, rendered)
    yield from _both("Queue", line.default_queues, _named("Queue", chart.objects))
    wanted = [f"{name}={value}" for name, value in line.priority_classes.items()]
    yield from _both("PriorityClass", wanted, chart.priorities)
    if line.reservation_namespace not in _named("Namespace", chart.objects):
        yield f"reservation_namespace: the chart has no namespace {line.reservation_namespace}"
    if line.has_shards is not ("SchedulingShard/default" in chart.objects):
        yield f"the data {'has' if line.has_shards else 'lacks'} a SchedulingShard for the scheduler, unlike the chart"


def _install(line: VersionLine, chart: KaiChart) -> Iterator[str]:
    yield from _both("CRD of the chart", line.crds if line.crds_in_chart else (), chart.crds)
    yield from _both("image of hook Jobs", line.hook_images, chart.hook_images)
    for name in (*line.images, *line.scaling_images):
        if name not in chart.images:
            yield f"images: the chart names no image {name}"
    if line.stale_hook_job is not ("crd-upgrader" in chart.lasting_jobs):
        yield f"stale_hook_job is {line.stale_hook_job}, but the chart's hook Job contradicts it"
    for field in ("config_template", "queue_template"):
        if (path := getattr(line, field)) and path not in chart.templates:
            yield f"{field}: the chart has no {path}"
    if line.config_template and "Config/kai-config" not in {*chart.inside, *chart.objects}:
        yield "config_template: the chart renders no Config/kai-config"


def _both(what: str, wanted: Iterable[str], found: Iterable[str]) -> Iterator[str]:
    wanted, found = set(wanted), set(found)
    yield from (f"{what} {name}: not in the chart" for name in sorted(wanted - found))
    yield from (f"{what} {name}: in the chart, not in the data" for name in sorted(found - wanted))


def _named(kind: str, objects: Iterable[str]) -> list[str]:
    return [title.removeprefix(f"{kind}/") for title in objects if title.startswith(f"{kind}/")]


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _title(doc: Json) -> str:
    return f"{doc['kind']}/{doc['metadata']['name']}"


def _annotations(doc: Json) -> Mapping[str, str]:
    return doc["metadata"].get("annotations") or {}


def _dotted(values: Json, before: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{before}{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{before}{key}.")


def _image_names(values: Json) -> Iterator[str]:
    """Names under the keys ``image`` and ``…Image`` of the values."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            if key.lower().endswith("image") and isinstance(value.get("name"), str):
                yield value["name"]
            yield from _image_names(value)


def _images_of(doc: Json) -> Iterator[str]:
    if doc["kind"] in _PODS:
        spec = doc["spec"]["template"]["spec"]
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            yield re.split("[:@]", container["image"].rpartition("/")[2])[0]
