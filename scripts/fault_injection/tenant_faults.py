"""Faults of tenants and their isolation, and the tests that each of them must turn red."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import yaml

from lab.session.lab import Lab
from lab.steps.kai.step import NAMESPACE
from scripts.fault_injection.seeding import Fault, patched, tampering
from scripts.fault_injection.tampering import neighbour_disturbed
from tests.e2e.kai_components import stopped
from tests.e2e.noisy_neighbour.own_kai import OwnKai
from tests.e2e.without_measures import CONFIG, without_policy

OWN = "own-kai"


def own_kai(lab: Lab) -> OwnKai:
    """The KAI of the first tenant with its own."""
    return OwnKai(lab, next(tenant for tenant in lab.tenants if tenant.mode == OWN))


@contextmanager
def tenants_kai_stopped(lab: Lab) -> Iterator[None]:
    """Stop the scheduler of a tenant's KAI."""
    with stopped(own_kai(lab), "scheduler"):
        yield


def namespaces_opened(lab: Lab) -> AbstractContextManager[None]:
    """Let KAI on the host handle the pods of all namespaces, which violates invariant ``tenant-host-kai-apart``."""
    change = {"spec": {"global": {"namespaceLabelSelector": None}}}
    return patched(lab, *CONFIG, change, rolls=(NAMESPACE, "pod-grouper"))


@contextmanager
def kubeconfig_readable(lab: Lab) -> Iterator[None]:
    """Make a tenant's kubeconfig readable for every user of this machine."""
    path = lab.paths.tenant_kubeconfig(lab.tenants[0].name)
    try:
        path.chmod(0o644)
        yield
    finally:
        path.chmod(0o600)


@contextmanager
def kubeconfig_mixed(lab: Lab) -> Iterator[None]:
    """Put the host's server and user into a tenant's kubeconfig."""
    path = lab.paths.tenant_kubeconfig(lab.tenants[0].name)
    before = path.read_text()
    mine, hosts = yaml.safe_load(before), yaml.safe_load(lab.paths.kubeconfig.read_text())
    for kind in ("clusters", "users"):
        mine[kind] = [{**hosts[kind][0], "name": mine[kind][0]["name"]}]
    try:
        path.write_text(yaml.safe_dump(mine))
        yield
    finally:
        path.write_text(before)


TENANT_FAULTS = (
    Fault(
        "kubeconfig-readable",
        "a tenant's kubeconfig has mode 0644",
        kubeconfig_readable,
        {"test_tenant_access.py": "private"},
    ),
    Fault(
        "kubeconfig-mixed",
        "a tenant's kubeconfig holds the host's server and user",
        kubeconfig_mixed,
        {"test_tenant_access.py": "one_door or one_api or one_server"},
    ),
    Fault(
        "tenant-kai-stopped",
        "the scheduler and the operator of a tenant's own KAI are scaled to 0",
        tenants_kai_stopped,
        {"test_own_kai.py": "all_kinds", "test_tenant_changes.py": ""},
        tenant=OWN,
    ),
    Fault(
        "namespaces-opened",
        "the pod-grouper of the host's KAI runs without its namespace selector",
        namespaces_opened,
        {"test_isolation.py": "keeps_to_its_namespaces"},
        tenant=OWN,
    ),
    Fault(
        "policy-left-out",
        "the policy that keeps the host's KAI off a tenant's pods is not bound",
        lambda lab: without_policy(lab, own_kai(lab).tenant.name),
        {"test_isolation.py": "nothing_is_lost"},
        tenant=OWN,
    ),
    Fault(
        "neighbour-disturbed",
        "while a tenant's queues are deleted, pods that share GPUs on the host are deleted too",
        lambda lab: tampering(lab, "Pod", neighbour_disturbed()),
        {"test_noisy_neighbour.py": "queues"},
        tenant=OWN,
    ),
)
