"""A stateful Kubernetes API server below the real client: objects, selectors, watches, finalizers, failures on demand.

For the exact exchange of requests and answers, such as cut connections, see kube_fake.FakeApi.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from lab.kube.rest_mapper import KNOWN, Resource
from lab.kube.transport import ExecOutcome, TransportError
from tests.support.api_requests import (
    GONE,
    Answer,
    Call,
    Failure,
    History,
    Json,
    Key,
    WatchStream,
    merged,
    selects,
    without,
)
from tests.support.fake_cluster import FakeCluster

Reactor = Callable[[Call], Any]


class FakeApiServer:
    """A Transport (see lab.kube.transport) with the state of a cluster. Thread-safe.

    Deleted objects go at once, unless they have finalizers; a namespace goes once all that is in it has gone. There
    are no other controllers: ``after`` plays them.

    Args:
        docs: what is there from the start.
        log: the changes that clients ask for, one line each; shared with others whose order matters.
    """

    server = "https://127.0.0.1:6443"

    def __init__(self, *docs: Json, log: list[str] | None = None) -> None:
        self.log = [] if log is None else log
        self.objects: dict[Key, Json] = {}
        self.calls: list[Call] = []
        self.alive = True
        self.version = "v1.34.4"
        self.closed = 0
        self.namespaces_end_pods = True
        """Whether pods end at once when their namespace is deleted."""
        self.changed = threading.Condition(threading.RLock())
        self._resources = list(KNOWN)
        self._reactors: list[tuple[str, str, Reactor]] = []
        self._after: list[tuple[str, str, Reactor]] = []
        self._applied: dict[Key, Json] = {}
        self._history: History = []
        self.cluster = FakeCluster(self)
        self.add(*docs)

    # --- state, for tests

    def add(self, *docs: Json) -> None:
        """Add objects, or replace those of the same names; missing standard fields are filled in."""
        for doc in docs:
            obj = deepcopy(doc)
            resource = self._resource(kind=obj["kind"])
            obj.setdefault("apiVersion", resource.api_version)
            self._store(self._key(obj), obj)

    def put(self, kind: str, name: str, namespace: str = "", *, metadata: Json | None = None, **fields: Any) -> Json:
        """Add an object with these fields; return the stored object."""
        space = {"namespace": namespace} if namespace else {}
        self.add({"kind": kind, "metadata": {"name": name, **space, **(metadata or {})}, **fields})
        return self.objects[kind, namespace, name]

    def change(self, kind: str, name: str, namespace: str = "", **fields: Any) -> None:
        """Change an object by a merge patch."""
        with self.changed:
            self._store((kind, namespace, name), merged(self.objects[kind, namespace, name], fields))

    def get(self, kind: str, name: str, namespace: str = "") -> Json | None:
        """Return the stored object, or None."""
        return self.objects.get((kind, namespace, name))

    def of_kind(self, kind: str, namespace: str | None = None) -> list[Json]:
        """Return the stored objects of a kind."""
        with self.changed:
            return [obj for (k, space, _), obj in self.objects.items() if k == kind and namespace in (None, space)]

    def calls_of(self, verb: str, kind: str = "") -> list[Call]:
        """Return the requests of a verb for a kind."""
        return [call for call in self.calls if call.verb == verb and kind in ("", call.kind)]

    def remove(self, kind: str, name: str = "", namespace: str = "") -> None:
        """Remove an object; without a name, all of its kind."""
        with self.changed:
            for key in [k for k in self.objects if k[0] == kind and (not name or k[1:] == (namespace, name))]:
                self._drop(key)

    def serve(self, kind: str, api_version: str, plural: str, *, namespaced: bool = True) -> None:
        """Serve a kind that the client knows only from discovery."""
        group, _, version = api_version.rpartition("/")
        self._resources.append(Resource(group, version, kind, plural, namespaced))

    @property
    def waits(self) -> list[str]:
        """Return the descriptions of the clients' waits."""
        return [wait.what for wait in self.cluster.waits]

    # --- behaviour

    def react(self, verb: str, kind: str, reactor: Reactor) -> None:
        """Call ``reactor`` before the server answers such calls; ``*`` matches all.

        It returns None to let the server answer, or the answer: an object, a text, or a Failure; or it raises a
        TransportError.
        """
        self._reactors.append((verb, kind, reactor))

    def fail(self, verb: str, kind: str, *failures: Failure | Exception | None, name: str = "") -> None:
        """Answer the next such calls with these failures; None lets one pass."""
        left = list(failures)

        def refuse(call: Call) -> Failure | None:
            if not left or name not in ("", call.name):
                return None
            failure = left.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return failure

        self.react(verb, kind, refuse)

    def after(self, verb: str, kind: str, reactor: Reactor) -> None:
        """Call ``reactor`` after such calls, to act as a controller or a kubelet; ``*`` matches all."""
        self._after.append((verb, kind, reactor))

    # --- Transport

    def send(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, content_type: str, timeout: float
    ) -> Answer | WatchStream:
        """See Transport.send."""
        if not self.alive:
            raise TransportError("Connection refused", unsent=True)
        if path == "/readyz":
            return Answer(200, b"ok")
        if path == "/version":
            return Answer.of({"gitVersion": self.version})
        discovered = self._discovery(path.strip("/").split("/"))
        if discovered is not None:
            return Answer.of(discovered)
        found = self._parse(path)
        if found is None:
            return Answer.of((404, "the server could not find the requested resource"))
        resource, namespace, name, sub = found
        data = None if body is None else json.loads(body)
        verb = _verb(method, name, sub, query, content_type)
        if verb == "create":
            meta = data.get("metadata", {})
            name = meta.get("name") or meta.get("generateName", "")
        return self._answer(Call(verb, resource.kind, namespace, name, data, dict(query)), resource)

    def exec(
        self, path: str, query: Sequence[tuple[str, str]], timeout: float, cancelled: Callable[[], bool]
    ) -> ExecOutcome:
        """See Transport.exec. A reactor defines the command's effect and returns its output."""
        found = self._parse(path)
        assert found is not None
        command = [value for key, value in query if key == "command"]
        call = Call("exec", "Pod", found[1], found[2], command, dict(query))
        out = self._react(call)
        if isinstance(out, tuple):
            return ExecOutcome("", "", {"status": "Failure", "message": out[1]})
        assert isinstance(out, str), f"no reactor answers {command} in {call.namespace}/{call.name}"
        return ExecOutcome(out, "", {"status": "Success"})

    def close(self) -> None:
        """Count the call."""
        self.closed += 1
        self.log.append("close")

    # --- requests

    def _react(self, call: Call) -> Any:
        self.calls.append(call)
        if call.verb not in ("get", "list", "watch", "log", "exec"):
            self.log.append(call.line)
        for verb, kind, reactor in self._reactors:
            if verb in ("*", call.verb) and kind in ("*", call.kind):
                answer = reactor(call)
                if answer is not None:
                    return answer
        return None

    def _answer(self, call: Call, resource: Resource) -> Answer | WatchStream:
        start = len(self._history)
        answer = self._react(call)
        if answer is None:
            with self.changed:
                answer = self._handle(call, resource)
        reply = WatchStream(self.changed, self._history, call, start) if answer == "watch" else Answer.of(answer)
        self._followed(call)
        return reply

    def _followed(self, call: Call) -> None:
        for verb, kind, reactor in self._after:
            if verb in ("*", call.verb) and kind in ("*", call.kind):
                reactor(call)

    def _handle(self, call: Call, resource: Resource) -> Any:
        key = (call.kind, call.namespace, call.name)
        there = self.objects.get(key)
        if call.verb == "list":
            items = [self._bare(obj) for obj in self.of_kind(call.kind) if selects(call, obj)]
            return {"kind": f"{call.kind}List", "metadata": {"resourceVersion": str(self._version)}, "items": items}
        if call.verb == "watch":
            return "watch"
        if call.verb == "deletecollection":
            for obj in self.of_kind(call.kind):
                if selects(call, obj):
                    self._delete(self._key(obj), call.body)
            return {"kind": "Status", "status": "Success"}
        if call.verb == "create":
            return self._create(call, resource)
        if call.verb == "apply":
            return call.body if "dryRun" in call.query else self._apply(key, call.body)
        if there is None:
            return 404, f'{resource.plural} "{call.name}" not found'
        if call.verb == "log":
            return f"log of {call.name}"
        if call.verb == "patch":
            wanted = call.body.get("metadata", {}).get("resourceVersion")
            if wanted not in (None, there["metadata"]["resourceVersion"]):
                return 409, "the object has been modified; please apply your changes to the latest version"
            return self._store(key, merged(there, call.body))
        if call.verb == "delete":
            self._delete(key, call.body)
            return {"kind": "Status", "status": "Success"}
        return there

    def _create(self, call: Call, resource: Resource) -> Any:
        obj = deepcopy(call.body)
        meta = obj["metadata"]
        if "generateName" in meta and "name" not in meta:
            meta["name"] = f"{meta['generateName']}{self._version:05}"
        if call.namespace:
            meta["namespace"] = call.namespace
        if self._key(obj) in self.objects:
            return 409, f'{resource.plural} "{meta["name"]}" already exists'
        if call.kind == "Pod":
            obj.setdefault("status", {"phase": "Pending"})
        if "dryRun" in call.query:
            return obj
        return self._store(self._key(obj), obj)

    def _apply(self, key: Key, doc: Json) -> Json:
        """Server-side apply with one manager: fields that it applied before and no longer names are removed."""
        doc = deepcopy(doc)
        if key[1]:
            doc["metadata"]["namespace"] = key[1]
        before = self.objects.get(key, {})
        left = without(before, self._applied.get(key, {}), doc)
        self._applied[key] = doc
        return self._store(key, merged(left, doc, nulls=True))

    def _delete(self, key: Key, options: Json | None) -> None:
        obj = deepcopy(self.objects[key])
        meta = obj["metadata"]
        meta.setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
        if key[0] == "Pod":
            grace = (options or {}).get("gracePeriodSeconds")
            meta["deletionGracePeriodSeconds"] = 30 if grace is None else grace
        if key[0] == "Namespace":
            obj["status"] = {**obj["status"], "phase": "Terminating"}
        if meta.get("finalizers") or key[0] == "Namespace":
            self._store(key, obj)
        else:
            self._drop(key)
        self._end_namespaces()

    def _end_namespaces(self) -> None:
        """Act as the namespace controller."""
        ending = [obj for obj in self.of_kind("Namespace") if "deletionTimestamp" in obj["metadata"]]
        for meta in (obj["metadata"] for obj in ending):
            for key in [key for key in self.objects if key[1] == meta["name"]]:
                stays = key[0] == "Pod" and not self.namespaces_end_pods
                if not stays and not self.objects[key]["metadata"].get("finalizers"):
                    self._drop(key)
            if not meta.get("finalizers") and not any(key[1] == meta["name"] for key in self.objects):
                self._drop(("Namespace", "", meta["name"]))

    # --- storage

    @property
    def _version(self) -> int:
        return len(self._history) + 1

    def _store(self, key: Key, obj: Json) -> Json:
        with self.changed:
            before = self.objects.get(key)
            obj = deepcopy(obj)
            # So that a recreated object of this name has another uid.
            uid = before["metadata"]["uid"] if before else f"uid-{key[2]}-{self._version}"
            meta = obj["metadata"] = {"uid": uid, "resourceVersion": str(self._version + 1), **obj["metadata"]}
            if before is not None and meta["resourceVersion"] == before["metadata"]["resourceVersion"]:
                meta["resourceVersion"] = str(self._version + 1)
            if key[0] == "Namespace":
                obj.setdefault("status", {"phase": "Active"})
            if key[0] == "CustomResourceDefinition":
                self._establish(obj)
            self.objects[key] = obj
            self._record(before, obj)
            return obj

    def _establish(self, crd: Json) -> None:
        crd.setdefault("status", {"conditions": [{"type": "Established", "status": "True"}]})
        spec = crd.get("spec") or {}
        if "names" in spec:
            version = f"{spec['group']}/{spec['versions'][0]['name']}"
            self.serve(spec["names"]["kind"], version, spec["names"]["plural"], namespaced=spec["scope"] != "Cluster")

    def _drop(self, key: Key) -> None:
        with self.changed:
            obj = self.objects.pop(key)
            self._applied.pop(key, None)
            self._record(obj, None)
        self._followed(Call(GONE, *key, body=obj, query={}))

    def _record(self, before: Json | None, obj: Json | None) -> None:
        self._history.append((deepcopy(before), deepcopy(obj)))
        self.changed.notify_all()

    # --- kinds

    def _resource(self, kind: str = "", group: str | None = None, plural: str = "") -> Resource:
        for resource in self._resources:
            if resource.kind == kind or (resource.group, resource.plural) == (group, plural):
                return resource
        raise AssertionError(f"the server has no kind {kind}: serve() it")

    def _key(self, obj: Json) -> Key:
        meta = obj["metadata"]
        return obj["kind"], meta.get("namespace", ""), meta["name"]

    def _bare(self, obj: Json) -> Json:
        return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}

    def _parse(self, path: str) -> tuple[Resource, str, str, str] | None:
        """Return the resource, namespace, name and subresource of a path."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        plural, name, sub = [*rest, "", ""][:3]
        for resource in self._resources:
            if (resource.group, resource.plural) == (group, plural):
                return resource, namespace, name, sub
        return None

    def _discovery(self, parts: list[str]) -> Any:
        """Return the answer to a request of API discovery; None for another path."""
        groups: dict[str, list[str]] = {}
        for group, version in sorted({(r.group, r.api_version) for r in self._resources if r.group}):
            groups.setdefault(group, []).append(version)
        if parts == ["apis"]:
            return {"groups": [_group(name, versions) for name, versions in groups.items()]}
        if len(parts) == 2 and parts[0] == "apis":
            return _group(parts[1], groups[parts[1]]) if parts[1] in groups else (404, "not found")
        if (len(parts), parts[0]) in ((2, "api"), (3, "apis")):
            version = "/".join(parts[1:])
            rows = [r for r in self._resources if r.api_version == version]
            return {"resources": [_row(resource) for resource in rows]}
        return None


def _verb(method: str, name: str, sub: str, query: Mapping[str, str], content_type: str) -> str:
    if method == "GET":
        return "watch" if "watch" in query else "log" if sub == "log" else "get" if name else "list"
    if method == "PATCH":
        return "apply" if "apply-patch" in content_type else "patch"
    return "create" if method == "POST" else "delete" if name else "deletecollection"


def _group(name: str, versions: Sequence[str]) -> Json:
    every = [{"groupVersion": version} for version in versions]
    return {"name": name, "versions": every, "preferredVersion": every[0]}


def _row(resource: Resource) -> Json:
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    return {"kind": resource.kind, "name": resource.plural, "namespaced": resource.namespaced, "verbs": verbs}
