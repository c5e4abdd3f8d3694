"""Logs of containers, and commands run in them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from lab.errors import ApiFailed
from lab.kube.rest import RestClient
from lab.kube.rest_mapper import POD
from lab.kube.retry import retry
from lab.kube.transport import ExecOutcome, TransportError

LINES = 12

_NOT_STARTED = "waiting for init preliminary setup"
"""runc's error when its init process died before the command started, so that repeating it is safe. Seen with runc
1.1.15 on a busy node, once in some thousand commands."""


def read_log(
    calls: RestClient, namespace: str, pod: str, container: str | None, *, tail: int | None, previous: bool
) -> str:
    """Implement ``Cluster.logs``."""
    query = {"container": container or _default_container(calls, namespace, pod)}
    if tail is not None:
        query["tailLines"] = str(tail)
    if previous:
        query["previous"] = "true"
    path, title = POD.path(namespace, pod, "log"), f"log of {POD.title(namespace, pod)}"
    return calls.raw("GET", path, title=title, query=query).decode(errors="replace")


def run_in_pod(
    calls: RestClient, namespace: str, pod: str, container: str | None, argv: Sequence[str], timeout: float
) -> str:
    """Implement ``Cluster.exec``."""
    container = container or _default_container(calls, namespace, pod)
    what = f"{shlex.join(argv)} in {POD.title(namespace, pod)}, container {container}"
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", a) for a in argv)]
    path = POD.path(namespace, pod, "exec")

    def once() -> str:
        outcome = _exec(calls, path, query, timeout, what)
        if outcome.status is not None and outcome.status.get("status") == "Success":
            return outcome.out
        lines = [*outcome.out.splitlines(), *outcome.err.splitlines()][-LINES:]
        raise ApiFailed(f"{what}: {_failure(outcome.status)}", evidence=lines, fix="check the output above")

    return retry(once, when=lambda error: _NOT_STARTED in error.what, attempts=3, interval=0.5, sleep=calls.pause)


def _exec(calls: RestClient, path: str, query: Sequence[tuple[str, str]], timeout: float, what: str) -> ExecOutcome:
    cancel = calls.cancel
    try:
        return calls.transport.exec(path, query, timeout, lambda: cancel is not None and cancel.is_set())
    except TransportError as failure:
        raise calls.server.unreachable(failure) from failure
    except TimeoutError as error:
        calls.check_cancel()
        raise ApiFailed(
            f"{what}: did not end within {timeout:g} s", fix="raise the timeout, or check what the command waits for"
        ) from error
    except ApiFailed as error:
        raise ApiFailed(
            f"{what}: {error.what} (HTTP {error.status})", status=error.status, fix="check whether the container runs"
        ) from error


def _default_container(calls: RestClient, namespace: str, pod: str) -> str:
    """The container of kubectl's annotation, or the first one."""
    obj = calls.json("GET", POD.path(namespace, pod), title=POD.title(namespace, pod))
    named = (obj.get("metadata", {}).get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    return str(named or obj["spec"]["containers"][0]["name"])


def _failure(status: Mapping[str, Any] | None) -> str:
    if status is None:
        return "the connection ended before the command did"
    causes = (status.get("details") or {}).get("causes") or []
    code = next((c.get("message") for c in causes if c.get("reason") == "ExitCode"), None)
    return f"ended with status {code}" if code is not None else str(status.get("message") or "failed")
