"""Where a tenant lives on the host, and what its namespace there carries."""

from __future__ import annotations

from lab.config.labels import HOST_KAI, OWN_KAI_LABEL


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
