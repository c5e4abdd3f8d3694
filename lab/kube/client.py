"""The client for one Kubernetes cluster. Objects are plain dicts, as in YAML."""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lab.errors import ApiFailed, WaitTimeout
from lab.kube.api import Api, selector
from lab.kube.rest import APPLY_PATCH, MERGE_PATCH, Json
from lab.kube.rest_mapper import POD
from lab.kube.retry import retry as repeat
from lab.kube.transport import ExecOutcome, TransportError
from lab.kube.wait import FailFast, Predicate, Wait, ready_predicates

FIELD_MANAGER = "kailab"

# Errors of the API server while a webhook's pods are still starting.
_STARTING = ("failed calling webhook", "conversion webhook")

OUTPUT_LINES = 12

_NOT_STARTED = "waiting for init preliminary setup"
"""runc's error when its init process died before the command started, so that repeating it is safe. Seen with runc
1.1.15 on a busy node, once in some thousand commands."""


class Cluster(Api):
    """An Api that also waits and writes."""

    def apply(self, docs: Iterable[Json | None], retry: float = 0.0, *, dry_run: bool = False) -> list[Json]:
        """Create or update objects of any kind by server-side apply, in order; returns them.

        Skips empty documents, expands a ``List``, and uses the namespace ``default`` where none is set. While a CRD or
        an admission webhook is not ready, retries for ``retry`` seconds in total. ``dry_run`` stores nothing. Raises
        ApiFailed; objects before the failed one stay applied.
        """
        applied = []
        start = time.monotonic()
        for doc in _flat(docs):
            # The time is for all documents together: most of them wait for the same CRD or webhook.
            left = retry - (time.monotonic() - start)
            once = functools.partial(self._apply, doc, dry_run=dry_run)
            applied.append(repeat(once, when=_not_ready_yet, timeout=left, max_interval=2, sleep=self.calls.pause))
        return applied

    def create(self, doc: Json) -> Json:
        """Create one object; raises ApiFailed with status 409 if it exists."""
        resource, namespace = self.kinds.of(doc), _namespace(doc)
        title = resource.title(namespace, doc.get("metadata", {}).get("name") or "(new)")
        query = {"fieldManager": FIELD_MANAGER}
        return self.calls.json("POST", resource.path(namespace), title=title, query=query, body=doc)

    def patch(
        self, kind: str, name: str, patch: Json, namespace: str | None = None, subresource: str | None = None
    ) -> Json:
        """Change an object by JSON merge patch (None deletes a key, lists are replaced); returns it."""
        resource = self.kinds.named(kind)
        return self.calls.json(
            "PATCH",
            resource.path(namespace, name, subresource),
            title=resource.title(namespace, name),
            query={"fieldManager": FIELD_MANAGER},
            body=patch,
            content_type=MERGE_PATCH,
        )

    def delete(
        self, kind: str, name: str, namespace: str | None = None, grace: int | None = None, wait: float | None = None
    ) -> None:
        """Delete one object and, in the background, its dependents; succeeds if it does not exist.

        ``grace`` is the seconds that a pod has to stop (0 deletes it immediately), ``wait`` the seconds to wait until
        the object is gone. Raises ApiFailed, or WaitTimeout with the remaining finalizers.
        """
        resource = self.kinds.named(kind)
        path, title = resource.path(namespace, name), resource.title(namespace, name)
        if not self._delete(path, title, {}, grace) or wait is None:
            return
        before = self.get(kind, name, namespace)
        if before is None:
            return
        uid = before["metadata"].get("uid")

        def gone(objects: list[Json]) -> bool:
            # An object of the same name with another uid is a recreated one.
            return all(obj["metadata"].get("uid") != uid for obj in objects)

        field = f"metadata.name={name}"
        try:
            self.wait(kind, gone, namespace=namespace, fields=field, timeout=wait, what=f"{title} is gone")
        except WaitTimeout as error:
            left = self.get(kind, name, namespace) or {}
            held = [*left.get("metadata", {}).get("finalizers", []), *left.get("spec", {}).get("finalizers", [])]
            lines = [f"finalizers: {', '.join(held)}"] if held else []
            raise WaitTimeout(error.what, evidence=[*lines, *error.evidence], fix=error.fix) from error

    def delete_all(self, kind: str, namespace: str | None, labels: str | None = None, grace: int | None = None) -> None:
        """Delete the objects of a kind in a namespace, or those with these labels in all namespaces.

        Raises ApiFailed when the server refuses, or when neither a namespace nor labels restrict the deletion.
        """
        resource = self.kinds.named(kind)
        inside = namespace if resource.namespaced else None
        if not inside and not labels:
            raise ApiFailed(
                f"refused to delete all {resource.title()} of the cluster", fix="pass a namespace or a label selector"
            )
        if kind == "Namespace" or (resource.namespaced and not inside):
            # The API deletes collections neither of namespaces nor across them.
            for obj in self.list(kind, inside, labels):
                self.delete(kind, obj["metadata"]["name"], obj["metadata"].get("namespace"), grace)
            return
        self._delete(resource.path(inside), resource.title(inside), selector(labels, None), grace)

    def exec(
        self, pod: str, namespace: str, argv: Sequence[str], container: str | None = None, timeout: float = 30
    ) -> str:
        """Run a command in a container and return its stdout.

        Raises ApiFailed, with the output as evidence, when the command does not start, fails, or does not end within
        ``timeout`` seconds; and Interrupted.
        """
        container = container or self._default_container(namespace, pod)
        what = f"{shlex.join(argv)} in {POD.title(namespace, pod)}, container {container}"
        query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", a) for a in argv)]
        path = POD.path(namespace, pod, "exec")

        def once() -> str:
            outcome = self._exec(path, query, timeout, what)
            if outcome.status is not None and outcome.status.get("status") == "Success":
                return outcome.out
            lines = [*outcome.out.splitlines(), *outcome.err.splitlines()][-OUTPUT_LINES:]
            raise ApiFailed(f"{what}: {_failure(outcome.status)}", evidence=lines, fix="check the output above")

        def not_started(error: ApiFailed) -> bool:
            return _NOT_STARTED in error.what

        return repeat(once, when=not_started, attempts=3, interval=0.5, sleep=self.calls.pause)

    def wait(
        self,
        kind: str,
        predicate: Predicate,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        timeout: float,
        fail: FailFast | None = None,
        what: str,
        hold: float = 0.0,
    ) -> list[Json]:
        """Watch a set of objects until ``predicate``, called with the set at each change, holds for ``hold`` seconds.

        Returns the set, which is empty while the kind's CRD is not installed. ``labels`` and ``fields`` are selectors,
        ``what`` is the condition in words. ``fail`` returns a reason to stop because the predicate will never hold.

        Raises:
            WaitTimeout: with the last states of the objects and their newest events.
            ApiFailed: the server refused, or never answered.
            Interrupted: the run was cancelled.
        """
        return Wait(self, kind, namespace, selector(labels, fields), timeout, what).until(predicate, fail, hold)

    def wait_ready(
        self,
        kind: str,
        names: str | Iterable[str] | None = None,
        namespace: str | None = None,
        timeout: float = 120.0,
        *,
        labels: str | None = None,
        what: str = "",
    ) -> list[Json]:
        """Wait until objects are ready: Pod, Node, Deployment, DaemonSet, StatefulSet, Job, CRD and others.

        All of ``names`` must exist and be ready; without names at least one object has ``labels``, and all of these are
        ready. Fails early when one can no longer become ready, such as an ended pod or one with an invalid image name.
        ``what`` is the condition in words. Raises like ``wait``.
        """
        wanted = [names] if isinstance(names, str) else None if names is None else sorted(names)
        if wanted == []:
            return []
        predicate, fail = ready_predicates(wanted)
        one = f"metadata.name={wanted[0]}" if wanted is not None and len(wanted) == 1 else None
        what = what or f"{kind} {', '.join(wanted) if wanted else labels or 'objects'} ready"
        return self.wait(
            kind, predicate, namespace=namespace, labels=labels, fields=one, timeout=timeout, fail=fail, what=what
        )

    def _apply(self, doc: Json, *, dry_run: bool) -> Json:
        resource, namespace, name = self.kinds.of(doc), _namespace(doc), doc.get("metadata", {}).get("name")
        if not name:
            raise ApiFailed(f"{resource.kind} without a name cannot be applied", fix="set metadata.name, or create it")
        meta = {key: value for key, value in doc["metadata"].items() if key not in ("managedFields", "resourceVersion")}
        return self.calls.json(
            "PATCH",
            resource.path(namespace, name),
            title=resource.title(namespace, name),
            query={"fieldManager": FIELD_MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})},
            body={**doc, "metadata": meta},
            content_type=APPLY_PATCH,
        )

    def _exec(self, path: str, query: Sequence[tuple[str, str]], timeout: float, what: str) -> ExecOutcome:
        cancel = self.cancel
        try:
            return self.calls.transport.exec(path, query, timeout, lambda: cancel is not None and cancel.is_set())
        except TransportError as failure:
            raise self.calls.unreachable(failure) from failure
        except TimeoutError as error:
            self.calls.check_cancel()
            fix = "raise the timeout, or check what the command waits for"
            raise ApiFailed(f"{what}: did not end within {timeout:g} s", fix=fix) from error
        except ApiFailed as error:
            text = f"{what}: {error.what} (HTTP {error.status})"
            raise ApiFailed(text, status=error.status, fix="check whether the container runs") from error

    def _delete(self, path: str, title: str, query: dict[str, str], grace: int | None) -> bool:
        """Whether there was something to delete."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            self.calls.json("DELETE", path, title=title, query=query, body=options)
        except ApiFailed as error:
            if error.status != 404:
                raise
            return False
        return True


def _namespace(doc: Json) -> str:
    """The namespace of a document; cluster-scoped kinds ignore it."""
    return str(doc.get("metadata", {}).get("namespace") or "default")


def _failure(status: Mapping[str, Any] | None) -> str:
    if status is None:
        return "the connection ended before the command did"
    causes = (status.get("details") or {}).get("causes") or []
    code = next((c.get("message") for c in causes if c.get("reason") == "ExitCode"), None)
    return f"ended with status {code}" if code is not None else str(status.get("message") or "failed")


def _flat(docs: Iterable[Json | None]) -> Iterator[Json]:
    for doc in docs:
        if doc and doc.get("kind") == "List":
            yield from _flat(doc.get("items") or [])
        elif doc:
            yield doc


def _not_ready_yet(error: ApiFailed) -> bool:
    """Whether a CRD is not served yet or a webhook does not answer yet; not for a missing namespace."""
    if error.status == 404:
        return "namespaces " not in error.what
    return error.status >= 500 and any(sign in error.what for sign in _STARTING)
