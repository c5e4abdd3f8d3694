"""``kailab watch``: the invariants of a live cluster as Prometheus metrics, from inside it."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Kubeconfig, Name, cluster_of, print_json
from lab.cli.signals import stopping
from lab.errors import Interrupted, SpecError
from lab.kube import Cluster
from lab.kube.http import KubeTransport
from lab.operations.watch import WatchTarget, install, remove, status
from lab.session.lab import Lab
from lab.ui.watch import render_watch_installed, render_watch_removed, render_watch_status
from lab.watch.api_load import CountedTransport
from lab.watch.dashboard import dashboard as dashboard_model
from lab.watch.log import stdout_log
from lab.watch.manifests import LOCAL_IMAGE, WatchObjects
from lab.watch.names import NAME, PORT
from lab.watch.serve import INTERVAL, WatchSettings
from lab.watch.serve import serve as serve_metrics

LOOPBACK = "127.0.0.1"
"""Address of 'kailab watch serve': the metrics are those of a cluster that others cannot read."""

app = command_app(no_args_is_help=True)

Image = Annotated[
    str,
    typer.Option("--image", metavar="REF", help="Image that the nodes pull. Default in a lab's own cluster: kailab's."),
]
Context = Annotated[str | None, typer.Option("--context", help="Context in --kubeconfig, which needs it.")]
CanaryPods = Annotated[bool, typer.Option("--canary", help="Also measure canary pods in the leaf queues.")]
Queue = Annotated[list[str] | None, typer.Option("--queue", help="Queue of canary pods, instead of all leaf queues.")]
Interval = Annotated[float, typer.Option("--interval", min=5, help="Seconds between the canary pods of a queue.")]


@app.command("install", epilog="Examples: kailab watch install --canary · … --kubeconfig F --context C --image REF")
def install_watch(
    name: Name = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    image: Image = "",
    canary: CanaryPods = False,
    queue: Queue = None,
    interval: Interval = INTERVAL,
    as_json: AsJson = False,
) -> None:
    """Put the watch into a cluster, or change its settings, and wait until it has read the cluster."""
    queues = _queues(canary, queue)
    target = _target(name, kubeconfig, context)
    done = install(target, image, canary=canary, queues=queues, interval=interval)
    print_json(done) if as_json else render_watch_installed(done)


@app.command("status", epilog="Examples: kailab watch status · kailab watch status --json")
def watch_status(
    name: Name = None, kubeconfig: Kubeconfig = None, context: Context = None, as_json: AsJson = False
) -> None:
    """Show what the watch of a cluster sees: violations with their defects, canary pods, its load.

    Exit code 13 for a violation that lasts.
    """
    found = status(_target(name, kubeconfig, context))
    print_json(found) if as_json else render_watch_status(found)
    if found.violations:
        raise typer.Exit(13)


@app.command("remove", epilog="Example: kailab watch remove")
def remove_watch(
    name: Name = None, kubeconfig: Kubeconfig = None, context: Context = None, as_json: AsJson = False
) -> None:
    """Remove the watch from a cluster, and verify that nothing of it is left."""
    done = remove(_target(name, kubeconfig, context))
    print_json(done) if as_json else render_watch_removed(done)


@app.command(epilog="Example: kailab watch serve --kubeconfig FILE --context NAME --port 9400")
def serve(
    name: Name = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    port: Annotated[int, typer.Option("--port", help="Port of /metrics, /healthz and /readyz; 0: a free one.")] = PORT,
) -> None:
    """Watch a cluster from this machine until Ctrl-C, and serve the metrics here. Creates nothing in the cluster."""
    known = _target(name, kubeconfig, context).cluster
    api = CountedTransport(KubeTransport(known.kubeconfig, known.context))
    cluster, cancel = Cluster(known.kubeconfig, known.context, transport=api), threading.Event()
    cluster.cancel = cancel
    with stopping(cancel), contextlib.suppress(Interrupted):
        serve_metrics(cluster, api, WatchSettings(port, LOOPBACK), cancel, stdout_log())


@app.command(epilog="Example: kailab watch manifests --image REF --canary | kubectl --context NAME apply -f -")
def manifests(
    image: Image = LOCAL_IMAGE, canary: CanaryPods = False, queue: Queue = None, interval: Interval = INTERVAL
) -> None:
    """Print all objects of the watch as YAML, with the alert rules for the Prometheus Operator."""
    import yaml

    wanted = WatchObjects(NAME, image, canary=canary, queues=_queues(canary, queue), interval=interval)
    typer.echo(yaml.safe_dump_all(wanted.documents(), sort_keys=False, width=120), nl=False)


@app.command(epilog="Example: kailab watch dashboard > dashboard.json")
def dashboard() -> None:
    """Print the Grafana dashboard as JSON."""
    import json

    typer.echo(json.dumps(dashboard_model(), indent=1))


def _queues(canary: bool, queues: list[str] | None) -> tuple[str, ...]:
    """Queues of canary pods. Raises SpecError without --canary."""
    if queues and not canary:
        raise SpecError("--queue needs --canary", fix="add --canary")
    return tuple(queues or ())


def _target(name: str | None, kubeconfig: Path | None, context: str | None) -> WatchTarget:
    """The cluster that the options mean: both its file and its context are named. Raises NoLab and SpecError."""
    if kubeconfig is not None and context is None:
        raise SpecError("--kubeconfig needs --context", fix="add --context NAME: the current context may change")
    cluster = cluster_of(name, kubeconfig, context)
    if cluster is not None:
        return WatchTarget(cluster, f"cluster {context}")
    lab = Lab.attach(name)
    return WatchTarget(lab.cluster, f"lab {lab.spec.name}", lab)
