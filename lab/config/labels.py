"""The names and labels by which a lab keeps tenants, and the KAI Schedulers they use, apart."""

from __future__ import annotations

NODE_LABEL = "kailab.dev/tenant"
"""Label and taint key of the nodes that belong to one tenant; the value is the tenant's name.

Also the node pool label of the host's KAI (Helm ``global.nodePoolLabelKey``): its default shard has the nodes without
this label. A key of the lab's own, because a tenant's KAI sees the label too and must not take it for a pool of its
own (KAI's default is ``kai.scheduler/node-pool``).
"""

OWN_KAI_LABEL = "kailab.dev/own-kai"
"""On the host namespace of a tenant with a KAI of its own, value ``true``: the policy that keeps the host's KAI off
selects by it."""

HOST_KAI_LABEL = "kailab.dev/kai"
"""On namespaces that belong to the host's KAI, value ``host``, where that KAI is told to look at no others (Helm
``global.namespaceLabelSelector``)."""

HOST_KAI = {HOST_KAI_LABEL: "host"}
"""What a namespace must carry for the host's KAI to look at its pods, beside tenants with a KAI of their own."""


def tenant_namespace(tenant: str) -> str:
    """The namespace on the host in which all of a tenant lives."""
    return f"vcluster-{tenant}"


def namespace_labels(mode: str, *, beside_host_kai: bool) -> dict[str, str]:
    """Labels of a tenant's namespace on the host, beyond the lab's own.

    Args:
        mode: as in the lab file.
        beside_host_kai: the lab has KAI on the host and a tenant with a KAI of its own.
    """
    if mode == "own-kai":
        return {OWN_KAI_LABEL: "true"}
    return dict(HOST_KAI) if mode == "host-kai" and beside_host_kai else {}
