"""Helpers for steps that install charts: values, Helm's release records, charts, pods that crashed."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.errors import ApiFailed, LabError
from lab.kube import Cluster
from lab.kube.access_review import Permission
from lab.kube.ownership import BY_HELM
from lab.objects.fields import labels_of
from lab.objects.views import PodView
from lab.paths import assets
from lab.serialization import yaml_documents
from lab.session.context import LabContext
from lab.tools.helm import Helm, Release

Json = dict[str, Any]


def helm_for(ctx: LabContext) -> Helm:
    """Helm for the cluster of the context. Raises LabError without a usable kubeconfig."""
    cluster = ctx.cluster()
    context = cluster.context or _current_context(cluster.kubeconfig)
    return Helm(ctx.run, ctx.supply.binary("helm"), cluster.kubeconfig, context)


def _current_context(kubeconfig: Path) -> str:
    import yaml

    try:
        context = (yaml.safe_load(kubeconfig.read_text()) or {}).get("current-context")
    except (OSError, yaml.YAMLError, AttributeError) as error:
        raise LabError(f"the lab's kubeconfig {kubeconfig} is unreadable: {error}", fix="kailab up") from error
    if not context:
        raise LabError(f"the lab's kubeconfig {kubeconfig} has no current-context", fix="kailab up")
    return str(context)


def base_values(folder: str, name: str) -> Json:
    """A YAML file under manifests/, such as Helm values."""
    found = yaml_documents((assets("manifests") / folder / f"{name}.yaml").read_text())
    return dict(found[0]) if found else {}


def merged(*layers: Mapping[str, Any]) -> Json:
    """Values merged like Helm does: maps by key, other values replaced by the later layer."""
    result: Json = {}
    for layer in layers:
        for key, value in layer.items():
            before = result.get(key)
            if isinstance(value, Mapping):
                result[key] = merged(before if isinstance(before, Mapping) else {}, value)
            else:
                result[key] = value
    return result


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or None, also for an empty path."""
    here: Any = values
    for key in path.split("."):
        if not isinstance(here, Mapping):
            return None
        here = here.get(key)
    return here


def with_value(path: str, value: object) -> Json:
    """Values with only ``value`` at a dotted path; empty for an empty path, which means that a chart lacks the key."""
    for key in reversed(path.split(".") if path else ()):
        value = {key: value}
    return dict(value) if path and isinstance(value, dict) else {}


def installed(cluster: Cluster, name: str, namespace: str) -> Release | None:
    """The newest revision of a release in Helm's records, or None."""
    records = _records(cluster, name, namespace)
    return Release.of_secret(records[-1]) if records else None


def missing_objects(cluster: Cluster, release: Release) -> tuple[str, ...]:
    """The objects of a release that the cluster lacks, one line each; one request for each kind and namespace.

    Helm never looks for them again; its next upgrade creates those that are gone.
    """
    there: dict[tuple[str, str | None], set[str]] = {}
    lines = []
    for doc in yaml_documents(release.manifest):
        name = doc["metadata"]["name"]
        try:
            resource = cluster.kinds.of(doc)
        except ApiFailed as error:
            if error.status != 404:
                raise
            lines.append(f"{doc['kind']} {name} is missing, with its CRD")
            continue
        namespace = (doc["metadata"].get("namespace") or release.namespace) if resource.namespaced else None
        kind = resource.qualified_kind
        if (kind, namespace) not in there:
            found = cluster.list(kind, namespace, labels=BY_HELM)
            there[kind, namespace] = {obj["metadata"]["name"] for obj in found}
        if name not in there[kind, namespace]:
            lines.append(f"{resource.title(namespace, name)} is missing")
    return tuple(lines)


def permissions(namespace: str) -> tuple[Permission, ...]:
    """What Helm needs for the records of a release, and a step to wait for its pods."""
    read, write = ("get", "list", "watch"), ("create", "update", "delete")
    secrets = (Permission(verb, "", "secrets", namespace) for verb in (*read, *write))
    return (*secrets, *(Permission(verb, "", "pods", namespace) for verb in read))


def forget_unfinished(cluster: Cluster, name: str, namespace: str) -> bool:
    """Delete Helm's records of interrupted operations; returns whether any existed.

    Helm refuses to change a pending release ("another operation is in progress"). After a failed first install it would
    upgrade, which skips objects that charts create on install only (KAI's default queues). Objects of the release stay:
    the next install adopts them by the release's name.
    """
    records = _records(cluster, name, namespace)
    stages = [labels_of(record["metadata"]).get("status", "") for record in records]
    if not records or stages[-1] == "deployed":
        return False
    never = not any(stage in ("deployed", "superseded") for stage in stages)
    unfinished = [record for record, stage in zip(records, stages, strict=True) if never or stage.startswith("pending")]
    for record in unfinished:
        cluster.delete("Secret", record["metadata"]["name"], namespace, wait=30)
    return bool(unfinished)


def _records(cluster: Cluster, name: str, namespace: str) -> list[Json]:
    """Helm's Secrets of a release, oldest revision first."""
    found = cluster.list("Secret", namespace, labels=f"owner=helm,name={name}")
    return sorted(found, key=lambda record: int(labels_of(record["metadata"]).get("version", 0)))


def differences(release: Release, version: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Differences between a release and the desired version and values, one line each."""
    lines = []
    if release.status != "deployed":
        lines.append(f"release {release.name} is {release.status}")
    if release.chart_version.removeprefix("v") != version.removeprefix("v"):
        lines.append(f"chart {release.chart_version} → {version}")
    have, want = dict(_flat(release.values)), dict(_flat(json.loads(json.dumps(values))))
    lines += [
        f"{path}: {_shown(have, path)} → {_shown(want, path)}"
        for path in sorted({*have, *want})
        if path not in have or path not in want or have[path] != want[path]
    ]
    return tuple(lines)


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        path = f"{before}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{path}.")
        else:
            yield path, value


def _shown(values: Mapping[str, Any], path: str) -> str:
    return json.dumps(values[path]) if path in values else "not set"


def chart_documents(chart: Path, folder: str) -> tuple[Json, ...]:
    """The YAML documents of a chart's folder such as ``crds``, by file name. Raises LabError."""
    texts = read_chart(chart, lambda inside: inside.startswith(f"{folder}/") and inside.endswith(".yaml"))
    return tuple(doc for name in sorted(texts) for doc in yaml_documents(texts[name]))


def read_chart(chart: Path, wanted: Callable[[str], bool]) -> dict[str, str]:
    """Texts, by path, of the files in a chart archive whose path ``wanted`` accepts. Raises LabError."""
    texts = {}
    try:
        with tarfile.open(chart) as archive:
            for member in archive:
                _, _, inside = member.name.partition("/")
                if member.isfile() and wanted(inside) and (file := archive.extractfile(member)) is not None:
                    texts[inside] = file.read().decode()
    except (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError) as error:
        raise LabError(
            f"the chart {chart} is unreadable: {error}", fix="delete that file and re-run the command"
        ) from error
    return texts


def restart_crashed(cluster: Cluster, namespace: str, labels: str | None = None) -> None:
    """Delete the pods that wait to be restarted after a crash; their controllers create them again at once.

    The kubelet waits longer after each crash of a pod, up to 5 minutes. Pods of a stopped lab crash until the API
    server, Services and their tenant's API answer; what they lacked is there when their step is applied.
    """
    for pod in cluster.list("Pod", namespace, labels):
        view = PodView.of(pod)
        if not view.deleting and "CrashLoopBackOff" in view.waiting_reasons:
            cluster.delete("Pod", view.name, namespace)


def namespace_doc(name: str, labels: Mapping[str, str]) -> Json:
    """A Namespace object."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
