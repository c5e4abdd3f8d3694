"""Names and labels that separate tenants, and the KAI Schedulers that they use."""

from __future__ import annotations

NODE_LABEL = "kailab.dev/tenant"
"""Label and taint key of a tenant's dedicated nodes; the value is the tenant's name.

Also the node pool label of the host's KAI (Helm ``global.nodePoolLabelKey``): its default shard has the nodes without
this label. It differs from KAI's default key ``kai.scheduler/node-pool``, because a tenant's KAI sees the label too and
must not treat the nodes as a pool of its own.
"""

OWN_KAI_LABEL = "kailab.dev/own-kai"
"""Label (value ``true``) of own-kai tenants' host namespaces; the policy that keeps the host's KAI off selects it."""

HOST_KAI_LABEL = "kailab.dev/kai"
"""Label (value ``host``) of the namespaces that the host's KAI serves, for Helm ``global.namespaceLabelSelector``."""

HOST_KAI = {HOST_KAI_LABEL: "host"}
"""Labels a namespace needs for the host's KAI to serve its pods, beside own-kai tenants."""


def tenant_namespace(tenant: str) -> str:
    """The host namespace of a tenant."""
    return f"vcluster-{tenant}"


def control_plane(tenant: str) -> str:
    """The label selector of a tenant's vCluster on the host: its pods and, without a namespace, its roles."""
    return f"app=vcluster,release={tenant}"


def namespace_labels(mode: str, *, beside_host_kai: bool) -> dict[str, str]:
    """Labels of a tenant's host namespace, by its mode and whether the lab has KAI on the host and in a tenant."""
    if mode == "own-kai":
        return {OWN_KAI_LABEL: "true"}
    return dict(HOST_KAI) if mode == "host-kai" and beside_host_kai else {}
