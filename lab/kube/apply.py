"""What changes a cluster: server-side apply and deletion."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Iterator

from lab.errors import ApiFailed, WaitTimeout
from lab.kube.api import Api, selector
from lab.kube.rest import APPLY_PATCH, Json, RestClient
from lab.kube.rest_mapper import RestMapper
from lab.kube.retry import retry
from lab.kube.wait import Wait

FIELD_MANAGER = "kailab"

# What the API server says while the other side of a webhook is still starting.
_STARTING = ("failed calling webhook", "conversion webhook")


def space_of(doc: Json) -> str:
    """The namespace of a document, ``default`` where it names none; cluster-scoped kinds ignore it."""
    return str(doc.get("metadata", {}).get("namespace") or "default")


def apply_all(calls: RestClient, kinds: RestMapper, docs: Iterable[Json | None], seconds: float) -> list[Json]:
    """Apply documents in the order given; see Cluster.apply."""
    applied = []
    start = time.monotonic()
    for doc in _flat(docs):
        # The seconds are for all documents together: most wait for the same CRD or webhook.
        left = seconds - (time.monotonic() - start)
        once = functools.partial(_apply, calls, kinds, doc)
        applied.append(retry(once, when=_not_ready_yet, timeout=left, max_interval=2, sleep=calls.pause))
    return applied


def _apply(calls: RestClient, kinds: RestMapper, doc: Json) -> Json:
    resource, space, name = kinds.of(doc), space_of(doc), doc.get("metadata", {}).get("name")
    if not name:
        raise ApiFailed(f"{resource.kind} without a name cannot be applied", fix="give it metadata.name, or create it")
    meta = {key: value for key, value in doc["metadata"].items() if key not in ("managedFields", "resourceVersion")}
    return calls.json(
        "PATCH",
        resource.path(space, name),
        title=resource.title(space, name),
        query={"fieldManager": FIELD_MANAGER, "force": "true"},
        body={**doc, "metadata": meta},
        content_type=APPLY_PATCH,
    )


def _flat(docs: Iterable[Json | None]) -> Iterator[Json]:
    for doc in docs:
        if not doc:
            continue
        if doc.get("kind") == "List":
            yield from _flat(doc.get("items") or [])
        else:
            yield doc


def _not_ready_yet(error: ApiFailed) -> bool:
    """Whether a CRD is not served yet or a webhook does not answer yet; a missing namespace is neither."""
    if error.status == 404:
        return "namespaces " not in error.what
    return error.status >= 500 and any(sign in error.what for sign in _STARTING)


def delete_one(api: Api, kind: str, name: str, namespace: str | None, grace: int | None, wait: float | None) -> None:
    """Delete one object; see Cluster.delete."""
    resource = api.kinds.named(kind)
    path, title = resource.path(namespace, name), resource.title(namespace, name)
    if not _delete(api.calls, path, title, {}, grace) or wait is None:
        return
    before = api.get(kind, name, namespace)
    if before is None:
        return
    uid = before["metadata"].get("uid")
    try:
        gone = Wait(api, kind, namespace, selector(None, f"metadata.name={name}"), wait, f"{title} is gone")
        # One of the same name and another uid was made anew by somebody else.
        gone.until(lambda objects: all(obj["metadata"].get("uid") != uid for obj in objects))
    except WaitTimeout as error:
        left = api.get(kind, name, namespace) or {}
        holding = [*left.get("metadata", {}).get("finalizers", []), *left.get("spec", {}).get("finalizers", [])]
        lines = [f"finalizers: {', '.join(holding)}"] if holding else []
        raise WaitTimeout(error.what, evidence=[*lines, *error.evidence], fix=error.fix) from error


def delete_many(api: Api, kind: str, namespace: str | None, labels: str | None, grace: int | None) -> None:
    """Delete the objects of a kind; see Cluster.delete_all."""
    resource = api.kinds.named(kind)
    inside = namespace if resource.namespaced else None
    if not inside and not labels:
        raise ApiFailed(f"refused to delete all {resource.title()} of the cluster", fix="name a namespace or labels")
    if kind == "Namespace" or (resource.namespaced and not inside):
        # The API deletes collections neither of namespaces nor across them.
        for obj in api.list(kind, inside, labels):
            delete_one(api, kind, obj["metadata"]["name"], obj["metadata"].get("namespace"), grace, None)
        return
    _delete(api.calls, resource.path(inside), resource.title(inside), selector(labels, None), grace)


def _delete(calls: RestClient, path: str, title: str, query: dict[str, str], grace: int | None) -> bool:
    """Whether there was something to delete."""
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    try:
        calls.json("DELETE", path, title=title, query=query, body=options)
    except ApiFailed as error:
        if error.status != 404:
            raise
        return False
    return True
