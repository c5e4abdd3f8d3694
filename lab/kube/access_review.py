"""What the user of a kubeconfig may do in a cluster, asked of its API, and the roles for what is missing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from lab.errors import ApiFailed
from lab.kube.api import OWNER_LABEL
from lab.kube.client import Cluster
from lab.kube.describe import title_of
from lab.kube.rest import Json
from lab.kube.rest_mapper import Resource
from lab.objects.fields import labels_of

_RBAC = "rbac.authorization.k8s.io"
_SERVICE_ACCOUNT = "system:serviceaccount:"
_OF_OBJECT = ("get", "patch", "delete")
_OF_COLLECTION = ("list", "watch", "create")
_AT_ONCE = 16
_NOT_TRIED = ("does not support dry run", "failed calling webhook")
"""Answers about webhooks: one that takes no dry run, and one whose pod does not answer at the moment."""

Docs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, order=True)
class Permission:
    """One verb on a resource."""

    verb: str
    group: str
    """API group; empty for the core group."""
    resource: str
    """Plural name such as ``pods``, with its subresource as in ``pods/exec``; or a non-resource URL with its slash."""
    namespace: str = ""
    """Empty: cluster-scoped, or in all namespaces."""
    name: str = ""
    """Empty: any object."""

    def __str__(self) -> str:
        words = (
            self.verb,
            f"{self.resource}.{self.group}".rstrip("."),
            self.name,
            self.namespace and f"in {self.namespace}",
        )
        return " ".join(filter(None, words))


def user_of(cluster: Cluster) -> str:
    """The name of the user as the API server sees it, by SelfSubjectReview (Kubernetes 1.28). Raises ApiFailed."""
    review = cluster.create({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    return str(review["status"]["userInfo"]["username"])


def missing(cluster: Cluster, permissions: Iterable[Permission]) -> tuple[Permission, ...]:
    """The permissions that the user lacks, one SelfSubjectAccessReview for each. Raises ApiFailed."""
    asked = tuple(dict.fromkeys(permissions))
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="access") as pool:
        allowed = pool.map(lambda permission: _allowed(cluster, permission), asked)
        return tuple(itertools.compress(asked, (not yes for yes in allowed)))


def role(cluster: Cluster, permissions: Iterable[Permission], name: str = "kailab", docs: Docs = ()) -> list[Json]:
    """The roles that grant exactly these permissions to the user, with their bindings, for an administrator to apply.

    A ClusterRole for what is cluster-wide, a Role for each namespace. ``name`` is that of all. A Role needs its
    namespace: one that does not exist yet comes first, as the lab's own, if it is among ``docs`` with the lab's label.
    What is needed in others that do not exist is granted everywhere. Raises ApiFailed.
    """
    wanted = set(permissions)
    if not wanted:
        return []
    subject = _subject(user_of(cluster))
    absent = [space for space in {one.namespace for one in wanted} - {""} if not _exists(cluster, space)]
    own = {doc["metadata"]["name"]: dict(doc) for doc in docs if doc["kind"] == "Namespace" and _is_of_lab(doc)}
    made: list[Json] = [own[space] for space in sorted(absent) if space in own]
    nowhere = {space for space in absent if space not in own}
    wanted = {replace(one, namespace="") if one.namespace in nowhere else one for one in wanted}
    for namespace, group in itertools.groupby(sorted(wanted, key=_by_namespace), key=lambda p: p.namespace):
        prefix, meta = ("", {"name": name, "namespace": namespace}) if namespace else ("Cluster", {"name": name})
        head = {"apiVersion": f"{_RBAC}/v1", "metadata": meta}
        ref = {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": name}
        made.append({**head, "kind": f"{prefix}Role", "rules": _rules(group)})
        made.append({**head, "kind": f"{prefix}RoleBinding", "roleRef": ref, "subjects": [subject]})
    return made


def for_documents(cluster: Cluster, docs: Docs) -> tuple[Permission, ...]:
    """What applying, watching and deleting these objects needs. Raises ApiFailed for a kind that nobody defines.

    The kinds are those of the server, and of CRDs among ``docs``. Users may grant only what they have (RBAC's privilege
    escalation prevention): a role also needs what it grants, unless the user may escalate roles, and a binding to an
    existing role needs ``bind`` or what that role grants.
    """
    defined = {(r.group, r.kind): r for r in map(_defined, docs) if r}
    needed: dict[Permission, None] = {}
    for doc in docs:
        resource, meta = _resource(cluster, doc, defined), doc["metadata"]
        space = str(meta.get("namespace") or "default") if resource.namespaced else ""
        of_object = (Permission(verb, resource.group, resource.plural, space, meta["name"]) for verb in _OF_OBJECT)
        of_collection = (Permission(verb, resource.group, resource.plural, space) for verb in _OF_COLLECTION)
        needed.update(dict.fromkeys([*of_object, *of_collection]))
        if resource.group == _RBAC:
            needed.update(dict.fromkeys(_of_grant(cluster, doc, docs, resource, space)))
    return tuple(needed)


@dataclass(frozen=True)
class DryRun:
    """What the API server says to objects without storing them."""

    problems: tuple[str, ...]
    """Objects that it refuses, and why; one line each."""
    not_tried: tuple[str, ...]
    """Objects whose namespace, kind or role does not exist yet, or whose webhook takes no dry run or is away.

    One line each.
    """


def dry_run(cluster: Cluster, docs: Docs) -> DryRun:
    """Apply objects as a server-side dry run. Raises ApiFailed only where the server does not answer."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="dry-run") as pool:
        refused = [(doc, error) for doc, error in zip(docs, pool.map(_try(cluster), docs), strict=True) if error]
    later = [error.status == 404 or any(text in error.what for text in _NOT_TRIED) for _, error in refused]
    lines = [_line(doc, error) for doc, error in refused]
    return DryRun(
        tuple(itertools.compress(lines, (not late for late in later))), tuple(itertools.compress(lines, later))
    )


def _allowed(cluster: Cluster, permission: Permission) -> bool:
    resource, _, subresource = permission.resource.partition("/")
    if resource:
        spec: Json = {
            "resourceAttributes": {
                "verb": permission.verb,
                "group": permission.group,
                "resource": resource,
                "subresource": subresource,
                "namespace": permission.namespace,
                "name": permission.name,
            }
        }
    else:
        spec = {"nonResourceAttributes": {"verb": permission.verb, "path": permission.resource}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    return bool(cluster.create(review)["status"].get("allowed"))


def _by_namespace(permission: Permission) -> tuple[str, Permission]:
    return permission.namespace, permission


def _exists(cluster: Cluster, namespace: str) -> bool:
    """Whether a namespace exists; one that the user may not read does."""
    try:
        return cluster.get("Namespace", namespace) is not None
    except ApiFailed as error:
        if error.status != 403:
            raise
        return True


def _is_of_lab(doc: Mapping[str, Any]) -> bool:
    return OWNER_LABEL in labels_of(doc["metadata"])


def _subject(user: str) -> Json:
    if user.startswith(_SERVICE_ACCOUNT):
        namespace, _, name = user.removeprefix(_SERVICE_ACCOUNT).partition(":")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"apiGroup": _RBAC, "kind": "User", "name": user}


def _rules(permissions: Iterable[Permission]) -> list[Json]:
    """Rules in which resources and names with the same verbs are together."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for one in permissions:
        verbs.setdefault((one.group, one.resource, one.name), []).append(one.verb)
    names: dict[tuple[str, str, tuple[str, ...], bool], list[str]] = {}
    for (group, resource, name), found in verbs.items():
        names.setdefault((group, resource, tuple(sorted(found)), bool(name)), []).append(name)
    rules: dict[tuple[str, tuple[str, ...], tuple[str, ...], bool], list[str]] = {}
    for (group, resource, of_both, _), of_rule in names.items():
        key = (group, of_both, tuple(filter(None, of_rule)), resource.startswith("/"))
        rules.setdefault(key, []).append(resource)
    return [_rule(*key, resources) for key, resources in rules.items()]


def _rule(group: str, verbs: tuple[str, ...], names: tuple[str, ...], are_urls: bool, resources: list[str]) -> Json:
    if are_urls:
        return {"nonResourceURLs": sorted(resources), "verbs": list(verbs)}
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": sorted(resources), **named, "verbs": list(verbs)}


def _defined(doc: Mapping[str, Any]) -> Resource | None:
    """The kind that a CRD defines; None for another object."""
    if doc.get("kind") != "CustomResourceDefinition":
        return None
    spec = doc["spec"]
    names, version = spec["names"], spec["versions"][0]["name"]
    return Resource(spec["group"], version, names["kind"], names["plural"], spec["scope"] == "Namespaced")


def _resource(cluster: Cluster, doc: Mapping[str, Any], defined: Mapping[tuple[str, str], Resource]) -> Resource:
    group = str(doc.get("apiVersion", "")).rpartition("/")[0]
    return defined.get((group, str(doc.get("kind")))) or cluster.kinds.of(doc)


def _of_grant(
    cluster: Cluster, doc: Mapping[str, Any], docs: Docs, resource: Resource, namespace: str
) -> Iterator[Permission]:
    """What a role or a binding needs besides the verbs on itself."""
    if "roleRef" not in doc:
        escalate = Permission("escalate", _RBAC, resource.plural, namespace, doc["metadata"]["name"])
        if missing(cluster, [escalate]):
            yield from _granted(doc, namespace)
        return
    ref = doc["roleRef"]
    space = "" if ref["kind"] == "ClusterRole" else namespace
    own = ((d["kind"], d["metadata"]["name"], d["metadata"].get("namespace", "")) for d in docs)
    if (ref["kind"], ref["name"], space) in own:
        return  # the role itself needs what it grants
    bind = Permission("bind", _RBAC, f"{ref['kind'].lower()}s", namespace, ref["name"])
    if missing(cluster, [bind]):
        try:
            existing = cluster.get(ref["kind"], ref["name"], space or None)
        except ApiFailed:
            existing = None
        if existing is not None and not missing(cluster, _granted(existing, namespace)):
            return
    yield bind


def _granted(role: Mapping[str, Any], namespace: str) -> Iterator[Permission]:
    """What a role grants in a namespace; empty: everywhere."""
    for rule in role.get("rules") or []:
        for verb in rule.get("verbs") or []:
            for url in rule.get("nonResourceURLs") or []:
                yield Permission(verb, "", url)
            every = (rule.get("apiGroups") or [], rule.get("resources") or [], rule.get("resourceNames") or [""])
            for group, plural, name in itertools.product(*every):
                yield Permission(verb, group, plural, namespace, name)


def _try(cluster: Cluster) -> Callable[[Mapping[str, Any]], ApiFailed | None]:
    def refusal(doc: Mapping[str, Any]) -> ApiFailed | None:
        try:
            cluster.apply([dict(doc)], dry_run=True)
        except ApiFailed as error:
            if not error.status:
                raise
            return error
        return None

    return refusal


def _line(doc: Mapping[str, Any], error: ApiFailed) -> str:
    title = title_of(doc)
    return f"{title}: {error.what.partition(f'{title}: ')[2] or error.what}"
