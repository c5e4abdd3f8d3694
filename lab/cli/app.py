"""The ``lab`` command."""

from __future__ import annotations

from lab.cli.lazy import lazy_group

app = lazy_group(
    "lab.cli",
    {
        "lint": "Say what will go wrong with manifests on this KAI version.",
        "gpus": "Show node, GPU, reservation pod, pods, tenant and queue: what is free, whole, shared, over-committed.",
        "explain": "Say why a pod does not run, the most fundamental reason first.",
        "verify": "Check GPU shares, reservation pods, queues, gangs and tenants by watches.",
        "doctor": "Check this machine and the GPUs of the lab that is up; what is wrong is told with its fix.",
        "report": "Write an HTML page: the lab's facts and GPUs, how it came up, its last run of the suites.",
        "up": "Bring the lab up, or finish what an earlier run began.",
        "plan": "Show every step, what it will do to this machine, where everything comes from.",
        "status": "How the lab stands: each step, tenants, kubeconfigs.",
        "down": "Take the lab away from any half-made state, and prove that nothing is left.",
        "logs": "Collect events, objects and logs of the lab into a folder, within a time budget.",
        "kubeconfig": "Print the path of a kubeconfig of the lab.",
        "schema": "Print the JSON Schema of lab files.",
        "init": "Write a lab file with every key explained.",
        "exit-codes": "List what each exit code means.",
        "version": "Print kailab's version.",
        "bundle": "Bundles: a folder or tar with images, charts and binaries; a lab comes up from one alone, offline.",
        "gpu": "Simulated GPUs: let one fail, heal it; the models a lab file can name.",
        "kai": "What the lab knows of NVIDIA KAI Scheduler, by version.",
        "tenant": "Tenants (vClusters) of a lab that runs: add and remove them, see and enter them, change the KAI"
        " inside.",
    },
    help="A lab for GPU scheduling on Kubernetes: kind, GPUs, KAI Scheduler, queues and vClusters from one file.",
    add_completion=True,
    epilog="Exit codes are listed by 'lab exit-codes'. --debug shows a traceback.",
)
