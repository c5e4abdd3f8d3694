"""``kailab tenant``: tenants of a running lab."""

from __future__ import annotations

from lab.cli.lazy import lazy_group

app = lazy_group(
    "lab.cli.tenant",
    {
        "add": "Add a tenant to the running lab, or finish what an earlier add began.",
        "remove": "Remove a tenant with everything in it, and verify that nothing is left.",
        "list": "List the tenants: mode, versions, dedicated nodes, GPUs, pods, API.",
        "status": "Show the state of tenants, step by step.",
        "connect": "Run a command with a tenant's private kubeconfig; yours is not changed.",
        "upgrade": "Rehearse another KAI version in a tenant: snapshot, upgrade, suites; rolls back if it fails.",
        "rollback": "Return the KAI of a tenant to the previous version while pods keep running, and time it.",
        "compare": "Run the same workload in two tenants and compare what their schedulers do.",
    },
)
