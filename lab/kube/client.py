"""One Kubernetes cluster, as steps and suites use it. Objects are plain dicts, as in YAML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.kube.api import Api, selector
from lab.kube.apply import FIELD_MANAGER, apply_all, delete_many, delete_one, space_of
from lab.kube.exec import run_in_pod
from lab.kube.rest import MERGE_PATCH, Json
from lab.kube.wait import FailFast, Predicate, Wait, judge_ready


class Cluster(Api):
    """An Api that also waits and writes."""

    def apply(self, docs: Iterable[Json | None], retry: float = 0.0) -> list[Json]:
        """Create or update objects of any kind by server-side apply, in the order given; returns them.

        Empty documents are left out, a ``List`` is taken apart, no namespace means ``default``.

        Args:
            docs: the objects.
            retry: seconds to go on while a CRD or an admission webhook is not ready yet.

        Raises:
            ApiFailed: the server refused an object; those before it stay applied.
        """
        return apply_all(self.calls, self.kinds, docs, retry)

    def create(self, doc: Json) -> Json:
        """Create one object; it must not exist yet (status 409), unless ``generateName`` names it."""
        resource = self.kinds.of(doc)
        space = space_of(doc)
        title = resource.title(space, doc.get("metadata", {}).get("name") or "(new)")
        query = {"fieldManager": FIELD_MANAGER}
        return self.calls.json("POST", resource.path(space), title=title, query=query, body=doc)

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
        """Delete one object, and what it owns in the background; already gone is success.

        Args:
            kind: its kind.
            name: its name.
            namespace: its namespace.
            grace: seconds that a pod gets to stop; 0 removes it at once.
            wait: seconds to wait until it is really gone.

        Raises:
            ApiFailed: the server refused.
            WaitTimeout: it is still there; the evidence names its finalizers.
        """
        delete_one(self, kind, name, namespace, grace, wait)

    def delete_all(self, kind: str, namespace: str | None, labels: str | None = None, grace: int | None = None) -> None:
        """Delete the objects of a kind in a namespace, or those with these labels anywhere; none is success.

        Raises:
            ApiFailed: the server refused, or neither namespace nor labels narrow the choice.
        """
        delete_many(self, kind, namespace, labels, grace)

    def exec(
        self, pod: str, namespace: str, argv: Sequence[str], container: str | None = None, timeout: float = 30
    ) -> str:
        """Run a command in a container and return its stdout.

        Raises:
            ApiFailed: not started, not ended within ``timeout`` seconds, or a non-zero status; the evidence
                is the output.
            Interrupted: the run was cancelled.
        """
        return run_in_pod(self.calls, namespace, pod, container, argv, timeout)

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
        """Watch a set of objects until ``predicate`` holds over it; returns the set.

        A kind whose CRD is not installed yet is an empty set.

        Args:
            kind: the kind of the objects.
            predicate: over the current set, called at each change.
            namespace: None for all.
            labels: label selector.
            fields: field selector.
            timeout: seconds.
            fail: over the current set; a reason why the predicate will never hold, to stop at once.
            what: the condition in words, for the error.
            hold: seconds for which the predicate must stay true without a break.

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
        """Wait until objects are ready: Pod, Node, Deployment, DaemonSet, StatefulSet, Job, CRD, ….

        Stops at once when one has failed for good: a pod has ended, an image name is wrong, …

        Args:
            kind: the kind of the objects.
            names: all of these must exist and be ready.
            namespace: where they are.
            timeout: seconds.
            labels: without ``names``: at least one object has these labels, and all that do are ready.
            what: the condition in words; made from the others when empty.
        """
        wanted = [names] if isinstance(names, str) else None if names is None else sorted(names)
        if wanted == []:
            return []
        predicate, fail = judge_ready(wanted)
        one = f"metadata.name={wanted[0]}" if wanted is not None and len(wanted) == 1 else None
        what = what or f"{kind} {', '.join(wanted) if wanted else labels or 'objects'} ready"
        return self.wait(
            kind, predicate, namespace=namespace, labels=labels, fields=one, timeout=timeout, fail=fail, what=what
        )
