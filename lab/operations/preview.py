"""What a lab would do in an existing cluster, asked of its API before anything is made: permissions and a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.engine.step import Observed, State
from lab.errors import LabError, NotPermitted, Unavailable
from lab.kube.access_review import DryRun, Permission, dry_run, for_documents, missing, role
from lab.kube.describe import title_of
from lab.operations.planning import Plan, images_of_charts
from lab.session.lab import Lab
from lab.session.step import LabStep
from lab.snapshot.inventory import Inventory, inventory
from lab.steps.pulled_images import MISSING, pulled_images
from lab.supply.published import pulled_from
from lab.supply.registry import mirrored
from lab.workloads import pods
from lab.workloads.permissions import of_suites

MANY_PODS = 100
"""Running pods of others from which a cluster counts as production."""

_EVERYTHING = Permission("*", "*", "*")

Json = dict[str, Any]


@dataclass(frozen=True)
class Preview:
    """An existing cluster, and the objects that the lab would create there."""

    inventory: Inventory
    objects: tuple[str, ...] = ()
    """Titles of the objects that the steps to do would create."""
    unread: tuple[str, ...] = ()
    """Charts that are not on this machine: what is in them is not known yet."""
    missing: tuple[Permission, ...] = ()
    """Permissions that these steps need and the user lacks."""
    missing_for_suites: tuple[Permission, ...] = ()
    """Permissions that the suites need and the user lacks; without them a lab comes up."""
    role: tuple[Json, ...] = ()
    """Roles and bindings that grant these and those, for an administrator to apply."""
    dry_run: DryRun = field(default_factory=lambda: DryRun((), ()))
    images: Mapping[str, str] = field(default_factory=dict)
    """Image of the charts → where the nodes have it from: nodes, registry, missing or unknown."""
    suites_image: Mapping[str, str] = field(default_factory=dict)
    """The same of the image of the suites' pods, without which a lab comes up."""

    @property
    def production(self) -> str:
        """Why the cluster looks like production; empty if it does not."""
        if self.inventory.production:
            return "its administrator has marked it as production"
        if self.inventory.foreign_pods > MANY_PODS:
            return f"{self.inventory.foreign_pods} pods of others run in it"
        return ""

    def refuse(self) -> None:
        """Raise NotPermitted for missing permissions, and LabError for objects that the server would refuse."""
        if self.missing:
            raise NotPermitted(
                f"{self.inventory.user or 'the user'} lacks {len(self.missing)} permissions in the cluster",
                evidence=[str(one) for one in self.missing[:12]],
                fix="'kailab plan --role' prints a Role with exactly these, for an administrator to apply",
            )
        if lost := [image for image, where in self.images.items() if where == MISSING]:
            raise Unavailable(
                f"{len(lost)} images that the lab needs are neither on the nodes nor in their registries",
                evidence=lost,
                fix="push them there, or name a registry that has them in supply.mirrors",
            )
        if self.dry_run.problems:
            raise LabError(
                f"the API server would refuse {len(self.dry_run.problems)} objects of the lab",
                evidence=self.dry_run.problems[:12],
                fix="kailab plan",
            )


def preview(lab: Lab, plan: Plan, seen: Mapping[str, Observed], *, before_up: bool = False) -> Preview | None:
    """Ask an existing cluster about the steps of a plan that are not ready; None for a cluster of the lab's own.

    Reads, and writes reviews and dry runs only. ``before_up`` brings the charts to this machine first, to know what is
    in them, and leaves out what only a plan shows: the suites' permissions, and the roles. Raises ApiFailed, and
    LabError where a chart cannot be brought or rendered.
    """
    if lab.spec.cluster.own:
        return None
    cluster = lab.cluster
    found = inventory(cluster)
    todo = [s for s in plan.steps if seen[s.id].state is not State.READY and isinstance(s, LabStep)]
    supply, charts = lab.session.supply, sorted({chart for step in todo for chart in step.charts()})
    for name, version in charts if before_up else ():
        supply.chart(name, version)
    unread = tuple(f"{name} {version}" for name, version in charts if not supply.at_hand("chart", name, version))
    docs = [doc for step in todo for doc in step.creates(lab.context(step.id))]
    # one question suffices for an administrator
    restricted = bool(todo or not before_up) and bool(missing(cluster, [_EVERYTHING]))
    further = [one for step in todo for one in step.permissions()]
    lacking = missing(cluster, [*for_documents(cluster, docs), *further]) if restricted else ()
    tried = DryRun((), ()) if lacking else dry_run(cluster, docs)
    of_tests = missing(cluster, of_suites(lab.spec)) if restricted and not before_up else ()
    name = f"kailab-{lab.spec.name}"
    roles: tuple[Json, ...] = ()
    if not before_up:
        roles = (*role(cluster, lacking, name, docs), *role(cluster, of_tests, f"{name}-suites"))
    mirrors = lab.spec.supply.mirrors
    probe = pulled_from(pods.IMAGE, mirrors)
    wanted = [*(mirrored(image, mirrors) for image in images_of_charts(lab.spec)), probe]
    images = pulled_images(cluster, lab.spec, wanted)
    of_pods = {probe: images.pop(probe)}
    return Preview(found, tuple(map(title_of, docs)), unread, lacking, of_tests, roles, tried, images, of_pods)
