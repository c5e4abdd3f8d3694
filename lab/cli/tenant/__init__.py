"""``lab tenant``: tenants of a running lab."""

from __future__ import annotations

from lab.cli.lazy import lazy_group

app = lazy_group(
    "lab.cli.tenant",
    {
        "add": "Add a tenant to the lab that runs, or finish what an earlier add began.",
        "remove": "Take a tenant away with all that is in it, and prove it.",
        "list": "List the tenants: mode, versions, own nodes, GPUs, pods, whether each answers.",
        "status": "How tenants stand, step by step.",
        "connect": "Enter a tenant by its private kubeconfig; yours is not touched.",
        "upgrade": "Rehearse another KAI version in a tenant: snapshot, upgrade, suites, verdict; back to before when"
        " it is red.",
        "rollback": "Bring the KAI of a tenant back to the version before; running pods and fractions stay, and"
        " it is timed.",
        "compare": "Run the same workload in two tenants and show what their schedulers made of it, side by side.",
    },
    help="Tenants (vClusters) of a lab that runs: add and remove them, see and enter them, change the KAI inside.",
)
