"""Labels and annotations of the objects that vCluster's syncer creates on the host (0.21 to 0.36.1).

The name on the host is ``<name>-x-<namespace>-x-<tenant>``, cut and hashed above 63 characters. So kailab never
computes it, but finds an object by these keys.

Two keys hold the virtual namespace: an annotation, which ``SyncedObject`` reads with those for name and uid, and a
label for selectors, since the API server cannot select by annotations. A tenant cannot set them: vCluster renames its
labels of these names (``vcluster.loft.sh/label-…``).
Sources: pkg/util/translate/types.go, pkg/controllers/resources/pods/translate/translator.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.objects.fields import Obj, parts

MANAGED_BY_LABEL = "vcluster.loft.sh/managed-by"
"""The tenant; on cluster-scoped objects ``<host namespace>-x-<tenant>``."""

OWNER_KIND_ANNOTATION = "vcluster.loft.sh/owner-set-kind"
"""Kind of the pod's controller inside the tenant."""

_NAMESPACE_LABEL = "vcluster.loft.sh/namespace"
_NAME = "vcluster.loft.sh/object-name"
_NAMESPACE = "vcluster.loft.sh/object-namespace"
_UID = "vcluster.loft.sh/object-uid"


@dataclass(frozen=True)
class SyncedObject:
    """The identity of an object inside its tenant, or its own identity if it does not belong to a tenant."""

    tenant: str
    """Empty for an object of the cluster itself."""
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, obj: Obj) -> SyncedObject:
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
    """The label selector of a tenant's namespaced objects on the host, optionally of one virtual namespace."""
    labels = f"{MANAGED_BY_LABEL}={tenant}"
    return f"{labels},{_NAMESPACE_LABEL}={namespace}" if namespace else labels
