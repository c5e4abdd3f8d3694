"""Requests and answers of FakeApiServer: calls, replies, watches, selectors and patches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace (empty: none) and name."""


GONE = "gone"
"""Not a verb of the API: an object has been removed. For ``FakeApiServer.after``."""


@dataclass(frozen=True)
class Call:
    """One request in terms of the API.

    ``verb`` is get, list, watch, create, apply, patch, delete, deletecollection, log or exec; ``body`` is an object,
    a patch, delete options or, for exec, the command.
    """

    verb: str
    kind: str
    namespace: str
    name: str
    body: Any
    query: Mapping[str, str]

    @property
    def line(self) -> str:
        """Describe the call in one line of a log."""
        if self.verb == "patch":
            return f"patch {self.kind} {self.name} {json.dumps(self.body)}"
        if self.verb == "deletecollection":
            where = f" in {self.namespace}" if self.namespace else f" with {self.query['labelSelector']}"
            return f"delete all {self.kind}{where} grace {self.body.get('gracePeriodSeconds')}"
        if self.verb == "delete":
            grace = self.body.get("gracePeriodSeconds")
            return f"delete {self.kind} {self.name}" + ("" if grace is None else f" grace {grace}")
        return f"{self.verb} {self.kind} {self.name}" + (" (dry run)" if "dryRun" in self.query else "")


History = list[tuple[Json | None, Json | None]]
"""Each change as the object before and after it."""


Failure = tuple[int, str]
"""An HTTP status and the message of the Status object."""


@dataclass
class Answer:
    """A Reply with a whole body; see lab.kube.transport."""

    status: int
    content: bytes

    @classmethod
    def of(cls, answer: Json | str | Failure) -> Answer:
        """Encode an answer: JSON, text, or a Failure as a Status object."""
        if isinstance(answer, str):
            return cls(200, answer.encode())
        if isinstance(answer, tuple):
            code, message = answer
            failure = {"kind": "Status", "status": "Failure", "message": message, "code": code}
            return cls(code, json.dumps(failure).encode())
        return cls(200, json.dumps(answer).encode())

    def read(self) -> bytes:
        """The body."""
        return self.content

    def lines(self) -> Iterator[bytes]:
        """Fail: this is not a stream."""
        raise AssertionError("a plain answer was read as a stream")

    def shutdown(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class WatchStream:
    """A Reply that streams changes until the client ends it."""

    status = 200

    def __init__(self, changed: threading.Condition, history: History, call: Call, start: int) -> None:
        self._changed = changed
        self._history = history
        self._call = call
        # The resourceVersion of a list is the version up to which it is complete.
        self._next = min(int(call.query.get("resourceVersion") or start + 1) - 1, start)
        self._ended = False

    def read(self) -> bytes:
        """Fail: this is not a plain answer."""
        raise AssertionError("a watch was read as a plain answer")

    def lines(self) -> Iterator[bytes]:
        """See Reply.lines."""
        while True:
            with self._changed:
                lines = self._lines()
                if not lines and not self._ended:
                    self._changed.wait(10)
                    continue
            if self._ended:
                return
            yield from lines

    def _lines(self) -> list[bytes]:
        lines = []
        for number, (before, obj) in enumerate(self._history[self._next :], self._next + 2):
            was = before is not None and before["kind"] == self._call.kind and selects(self._call, before)
            now = obj is not None and obj["kind"] == self._call.kind and selects(self._call, obj)
            if was or now:
                kind = ("MODIFIED" if was else "ADDED") if now else "DELETED"
                shown: Json = deepcopy((obj if now else before) or {})
                shown["metadata"]["resourceVersion"] = str(number)
                lines.append(json.dumps({"type": kind, "object": shown}).encode())
        self._next = len(self._history)
        return lines

    def shutdown(self) -> None:
        """See Reply.shutdown."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def close(self) -> None:
        """See Reply.close."""


def selects(call: Call, obj: Json) -> bool:
    """Whether an object matches the namespace and selectors of a list or a watch."""
    meta = obj["metadata"]
    if call.namespace not in ("", meta.get("namespace", "")):
        return False
    labels = meta.get("labels") or {}
    for term in _terms(call.query.get("labelSelector", "")):
        key, equals, value = term.replace("==", "=").partition("=")
        if not equals:
            there = key.removeprefix("!") in labels
            if there == key.startswith("!"):
                return False
        elif (labels.get(key.removesuffix("!")) == value) == key.endswith("!"):
            return False
    for term in _terms(call.query.get("fieldSelector", "")):
        key, _, value = term.partition("=")
        at: Any = obj
        for part in key.removesuffix("!").split("."):
            at = (at or {}).get(part)
        if ((at or "") == value) == key.endswith("!"):
            return False
    return True


def merged(obj: Mapping[str, Any], patch: Mapping[str, Any], *, nulls: bool = False) -> Json:
    """Return the object after a JSON merge patch; ``nulls`` keeps them as values."""
    new = dict(obj)
    for key, value in patch.items():
        if value is None and not nulls:
            new.pop(key, None)
        elif isinstance(value, dict):
            there = new.get(key)
            new[key] = merged(there if isinstance(there, dict) else {}, value, nulls=nulls)
        else:
            new[key] = deepcopy(value)
    return new


def without(obj: Mapping[str, Any], applied: Mapping[str, Any], doc: Mapping[str, Any]) -> Json:
    """Return the object without fields that were applied before and are not in the new document."""
    new = dict(obj)
    for key, value in applied.items():
        if key not in doc:
            new.pop(key, None)
        elif isinstance(value, dict) and isinstance(doc[key], dict) and isinstance(new.get(key), dict):
            new[key] = without(new[key], value, doc[key])
    return new


def _terms(selector: str) -> list[str]:
    assert " in (" not in selector, f"sets are not selected by: {selector}"
    return [term.strip() for term in selector.split(",") if term.strip()]
