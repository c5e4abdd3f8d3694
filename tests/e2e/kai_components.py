"""Delete, stop and restart KAI's components by their role."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from lab.config import LabSpec
from lab.kai import line_of
from lab.kube import Cluster
from lab.session.context import LabContext
from lab.steps.kai import Kai
from lab.steps.kai.step import NAMESPACE
from lab.workloads.temporary import changed

from .scheduling_decisions import WAIT

OPERATOR = "operator"
"""The operator reverts changes of the other components' Deployments."""


class HasKai(Protocol):
    """A lab, or a tenant with its own KAI (``noisy_neighbour.own_kai.OwnKai``)."""

    @property
    def cluster(self) -> Cluster:
        """The cluster in which that KAI runs."""
        ...

    @property
    def spec(self) -> LabSpec:
        """The configuration that it was installed with."""
        ...

    @property
    def kai_version(self) -> str | None:
        """Its version."""
        ...

    def context(self, step: str) -> LabContext:
        """Return the context of a step that manages it."""
        ...


def deployments(lab: HasKai) -> dict[str, str]:
    """Return the existing components' Deployments by key in the chart's values: scheduler, binder, …"""
    there = {obj["metadata"]["name"] for obj in lab.cluster.list("Deployment", NAMESPACE)}
    return {key: name for name, key in line_of(str(lab.kai_version)).deployments.items() if name in there}


def kill(lab: HasKai, component: str) -> None:
    """Delete a component's pod without grace period; its Deployment creates another."""
    lab.cluster.delete_all("Pod", NAMESPACE, labels=pods(lab, component), grace=0)


def end(lab: HasKai, component: str) -> None:
    """Delete a component's pod and wait until it no longer answers; its Deployment creates another.

    Raises:
        WaitTimeout: the pod is not deleted in time.
    """
    labels = pods(lab, component)
    old = {pod["metadata"]["uid"] for pod in lab.cluster.list("Pod", NAMESPACE, labels=labels)}
    _delete(lab, labels)
    lab.cluster.wait(
        "Pod",
        lambda pods: not old & {pod["metadata"]["uid"] for pod in pods},
        namespace=NAMESPACE,
        labels=labels,
        timeout=WAIT,
        what=f"KAI's {component} has ended",
    )


@contextmanager
def stopped(lab: HasKai, *components: str) -> Iterator[None]:
    """Stop components, and the operator so that they stay stopped; restore KAI at the end.

    Raises:
        WaitTimeout: a pod is not deleted in time, or KAI does not recover.
    """
    names = deployments(lab)
    # The operator must be gone first: otherwise it starts the others again.
    chosen = [*([OPERATOR] if OPERATOR in names else []), *components]
    with ExitStack() as stack:
        stack.callback(wait_until_up, lab)
        for component in chosen:
            off = {"spec": {"replicas": 0}}
            stack.enter_context(changed(lab.cluster, lab.spec.name, "Deployment", names[component], off, NAMESPACE))
            _delete(lab, pods(lab, component))
            lab.cluster.wait(
                "Pod",
                lambda pods: not pods,
                namespace=NAMESPACE,
                labels=pods(lab, component),
                timeout=WAIT,
                what=f"KAI's {component} is stopped",
            )
        yield


def wait_until_up(lab: HasKai) -> None:
    """Wait until all components are Available and KAI's webhooks answer. Raises LabError."""
    lab.cluster.wait_ready("Deployment", deployments(lab).values(), NAMESPACE, timeout=WAIT)
    Kai(lab.spec).verify(lab.context("kai"))


def pods(lab: HasKai, component: str) -> str:
    """The selector of a component's pods."""
    return f"app={deployments(lab)[component]}"


def _delete(lab: HasKai, labels: str) -> None:
    """Not 0 seconds: then the object is gone at once, while its webhook still answers briefly."""
    lab.cluster.delete_all("Pod", NAMESPACE, labels=labels, grace=1)
