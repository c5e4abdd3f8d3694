"""The user's kubeconfig of an existing cluster, and the lab's copy of the one context that the lab file names.

The user's kubeconfig is never written. The copy has one context and no paths to other files, so that its current
context is the right one for every tool.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.config import LabSpec
from lab.engine.journal import Journal
from lab.errors import LabError, SpecError
from lab.files import write_atomic
from lab.kube import Cluster
from lab.paths import LabPaths

CLAIM = "existing-cluster"
"""Kind of the journal's record of the cluster; its facts are the server and the UID of namespace kube-system."""

_FILES = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key")}
_SYSTEM = "kube-system"

Json = dict[str, Any]


def one_context(file: Path, context: str) -> str:
    """A kubeconfig with one context of ``file``: certificates inline, other paths absolute.

    Raises SpecError: the file or the context does not exist, or names a missing file.
    """
    import yaml

    try:
        data = yaml.safe_load(file.read_text()) or {}
        contexts = _by_name(data, "contexts", "context")
        if context not in contexts:
            raise SpecError(
                f"cluster.context: {file} has no context {context!r}",
                evidence=[f"contexts: {', '.join(sorted(contexts)) or 'none'}"],
                fix="set cluster.context to one of these",
            )
        entry = contexts[context]
        names = {"cluster": entry.get("cluster", ""), "user": entry.get("user", "")}
        parts = {kind: dict(_by_name(data, f"{kind}s", kind).get(name) or {}) for kind, name in names.items()}
        for kind, keys in _FILES.items():
            for key in keys:
                if path := parts[kind].pop(key, None):
                    content = (file.parent / str(path)).read_bytes()
                    parts[kind].setdefault(f"{key}-data", base64.b64encode(content).decode())
    except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SpecError(
            f"cluster.kubeconfig: {file} is unreadable: {reason}", fix="name a kubeconfig file that kubectl can use"
        ) from error
    if not parts["cluster"].get("server"):
        raise SpecError(
            f"cluster.context: context {context!r} of {file} names no cluster with a server", fix="name another context"
        )
    user = parts["user"]
    if path := user.get("tokenFile"):
        user["tokenFile"] = str(file.parent / path)
    if "/" in (command := str((user.get("exec") or {}).get("command", ""))):
        user["exec"] = {**user["exec"], "command": str(file.parent / command)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": parts["cluster"]}],
            "users": [{"name": context, "user": user}],
            "contexts": [{"name": context, "context": {**entry, "cluster": context, "user": context}}],
            "current-context": context,
        },
        sort_keys=False,
    )


def _by_name(data: Mapping[str, Any], section: str, kind: str) -> dict[str, Json]:
    return {entry["name"]: entry.get(kind) or {} for entry in data.get(section) or []}


def connect(spec: LabSpec) -> Cluster:
    """A client for the cluster that the lab file names. Raises SpecError as ``one_context`` does."""
    file, context = named_context(spec)
    one_context(file, context)
    return Cluster(file, context)


def named_context(spec: LabSpec) -> tuple[Path, str]:
    """Kubeconfig and context; a rule of the lab file guarantees both."""
    return Path(spec.cluster.kubeconfig or "").expanduser(), spec.cluster.context or ""


def uid_of(cluster: Cluster) -> str:
    """The UID of namespace kube-system, which identifies a cluster. Raises ApiFailed."""
    found = cluster.get("Namespace", _SYSTEM) or {}
    return str(found.get("metadata", {}).get("uid", ""))


def renew_copy(spec: LabSpec, paths: LabPaths, journal: Journal) -> None:
    """Copy the context again where the user's file has changed, as after an expiry, and leads to the lab's cluster.

    Otherwise the copy stays: without a usable file, without an answer, or if the context leads to another cluster.
    """
    file = paths.kubeconfig
    if spec.cluster.own or not file.exists():
        return
    with contextlib.suppress(LabError, OSError):
        text = one_context(*named_context(spec))
        if text == file.read_text():
            return
        known = {owned.facts.get("uid") for owned in journal.owned(CLAIM)}
        with contextlib.closing(connect(spec)) as cluster:
            same = bool(uid := uid_of(cluster)) and uid in known
        if same:
            write_atomic(file, text, mode=0o600)
