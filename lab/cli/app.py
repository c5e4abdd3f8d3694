"""The ``kailab`` command."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.lazy import lazy_group
from lab.version import VERSION

app = lazy_group(
    "lab.cli",
    {
        "lint": "Report what will go wrong with manifests on this KAI version.",
        "gpus": "Show nodes, GPUs, reservation pods, pods, tenants and queues: free, shared, whole, over-committed.",
        "explain": "Explain why a pod or a workload does not run, the root cause first.",
        "can-run": "Say whether KAI would run workloads now, after which evictions, or what must change.",
        "verify": "Check GPU shares, reservation pods, queues, gangs and tenants by watches.",
        "watch": "Watch a live KAI from inside its cluster: invariants as Prometheus metrics, canary pods, alerts.",
        "doctor": "Check this machine and the GPUs of the running lab, with a fix for each problem.",
        "report": "Write an HTML page: the lab's facts and GPUs, how it came up, the last run of its suites.",
        "try": "Bring up the smallest lab with KAI, let two pods share its GPU, and explain why a third waits.",
        "up": "Bring the lab up, or finish what an earlier run began.",
        "plan": "Show every step, its changes to this machine, and the source of each item.",
        "status": "Show the state of each step, the tenants and the kubeconfigs.",
        "pause": "Freeze the nodes of a running lab: it uses no processor time, and keeps its memory and all pods.",
        "resume": "Continue a paused lab, and wait until its nodes are Ready.",
        "reset": "Make a used lab as it was after 'kailab up': everything in its cluster is lost.",
        "e2e": "Run the suites against the running lab.",
        "down": "Remove the lab in any state, and verify that nothing is left.",
        "logs": "Collect events, objects and logs of the lab into a folder, within a time limit.",
        "kubeconfig": "Print the path of a kubeconfig of the lab.",
        "schema": "Print the JSON Schema of lab files, or of a command's JSON.",
        "init": "Write a lab file with every key explained.",
        "exit-codes": "List the exit codes with their meanings.",
        "version": "Print kailab's version.",
        "bundle": "Bundles: a folder or tar with images, charts and binaries, to bring up a lab offline.",
        "gpu": "Simulated GPUs: make one fail, heal it, list the models that a lab file can name.",
        "kai": "KAI Scheduler: versions that kailab knows; upgrade and roll back the lab's own under load.",
        "tenant": "Tenants (vClusters) of a running lab: add, remove, inspect, enter, upgrade.",
    },
    help="A lab for GPU scheduling on Kubernetes: kind, GPUs, KAI Scheduler, queues and vClusters from one file.",
    add_completion=True,
    epilog="'kailab exit-codes' lists the exit codes. --debug shows a traceback.",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"kailab {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None: ...
