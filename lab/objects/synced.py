"""What vCluster writes onto the objects that its syncer makes on the host (0.21 to 0.36.1).

The name on the host is ``<name>-x-<namespace>-x-<tenant>``, cut and hashed over 63 characters. So it is never computed:
an object is found by these keys.

The namespace inside the tenant is there twice, with one value. The annotation ``object-namespace`` belongs to
``object-name`` and ``object-uid``: together they identify the tenant's object, and ``SyncedObject`` reads them. The
label ``namespace`` is the same for label selectors, since the API server cannot select by annotations; ``selector``
uses it. Both are vCluster's own: it renames a tenant's labels of these names (``vcluster.loft.sh/label-…``).
Sources: pkg/util/translate/types.go, pkg/controllers/resources/pods/translate/translator.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.objects.fields import Obj, parts

MANAGED_BY_LABEL = "vcluster.loft.sh/managed-by"
"""The tenant; on cluster-scoped objects ``<host namespace>-x-<tenant>``."""

OWNER_KIND_ANNOTATION = "vcluster.loft.sh/owner-set-kind"
"""Kind of the controller that the pod has inside the tenant."""

_NAMESPACE_LABEL = "vcluster.loft.sh/namespace"
_NAME = "vcluster.loft.sh/object-name"
_NAMESPACE = "vcluster.loft.sh/object-namespace"
_UID = "vcluster.loft.sh/object-uid"


@dataclass(frozen=True)
class SyncedObject:
    """An object as its owner sees it: by its identity inside the tenant, or by its own where no tenant made it."""

    tenant: str
    """The vCluster; empty for an object of the cluster itself."""
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, obj: Obj) -> SyncedObject:
        """The identity of an API object of the host."""
        meta = parts(obj)[0]
        tenant = (meta.get("labels") or {}).get(MANAGED_BY_LABEL, "")
        if not tenant:
            return cls("", meta.get("namespace", ""), meta.get("name", ""), meta.get("uid", ""))
        notes = meta.get("annotations") or {}
        return cls(tenant, notes.get(_NAMESPACE, ""), notes.get(_NAME, ""), notes.get(_UID, ""))

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


def selector(tenant: str, namespace: str = "") -> str:
    """The label selector of a tenant's namespaced objects on the host; with ``namespace``, of one inside the tenant."""
    labels = f"{MANAGED_BY_LABEL}={tenant}"
    return f"{labels},{_NAMESPACE_LABEL}={namespace}" if namespace else labels
