"""What the suites may do in a cluster of others: the verbs that their user needs, beside those of ``kailab up``."""

from __future__ import annotations

from collections.abc import Iterator

from lab.config import LabSpec
from lab.kube.access_review import Permission

_WRITE = ("create", "patch", "delete", "deletecollection")
_READ = ("get", "list", "watch")

_KAI, _TOPOLOGY = "scheduling.run.ai", "kai.scheduler"
_WORKLOADS = (
    ("", "pods", _WRITE),
    ("", "pods/exec", ("create", "get")),
    ("", "pods/log", ("get",)),
    ("", "namespaces", ("create", "delete")),
    ("apps", "deployments", _WRITE),
    ("apps", "statefulsets", _WRITE),
    ("batch", "jobs", _WRITE),
)
_OF_KAI = ((_KAI, "queues", ("create", "patch", "delete")), (_KAI, "podgroups", _WRITE))
_OF_EXCLUSIVE = (("", "nodes", ("patch",)), (_TOPOLOGY, "topologies", ("create", "delete")))
"""Of tests that disturb others, which run in a cluster that is the lab's alone."""
_READS = (
    *(("", plural) for plural in ("configmaps", "events", "namespaces", "nodes", "pods")),
    *(("apps", plural) for plural in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    ("batch", "jobs"),
)
_READS_OF_KAI = ((_KAI, "queues"), (_KAI, "podgroups"), (_KAI, "bindrequests"), (_TOPOLOGY, "topologies"))


def of_suites(spec: LabSpec) -> tuple[Permission, ...]:
    """The permissions in an existing cluster, in all namespaces, because suites run in new ones."""
    return tuple(Permission(verb, group, plural) for group, plural, verbs in _resources(spec) for verb in verbs)


def _resources(spec: LabSpec) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    yield from _WORKLOADS
    yield from _OF_KAI if spec.wants_kai else ()
    yield from _OF_EXCLUSIVE if spec.cluster.exclusive else ()
    for group, plural in (*_READS, *(_READS_OF_KAI if spec.wants_kai else ())):
        yield group, plural, _READ
    if spec.supply.pull_secrets:
        yield "", "secrets", ("get", "create", "patch")
