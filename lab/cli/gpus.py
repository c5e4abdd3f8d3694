"""``kailab gpus``: the GPUs and their pods."""

from __future__ import annotations

import contextlib
import signal
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Context, Kubeconfig, Name, cluster_of, print_json
from lab.errors import Interrupted
from lab.gpu.map.watch import GpuFollow, GpuSource
from lab.session.lab import Lab
from lab.ui.gpu_watch import watch_gpus
from lab.ui.gpus import render_gpus

app = command_app()


@app.command(epilog="Examples: kailab gpus · kailab gpus --watch · kailab gpus --kubeconfig FILE --context NAME")
def gpus(
    name: Name = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep watching: a live table on a terminal, else a line per change.")
    ] = False,
    width: Annotated[
        int | None, typer.Option("--width", min=60, help="Draw the table this wide, also into a file or pipe.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_json: AsJson = False,
) -> None:
    """Show nodes, GPUs, reservation pods, pods, tenants and queues: free, shared, whole, over-committed."""
    cluster = cluster_of(name, kubeconfig, context)
    if cluster is None:
        lab = Lab.attach(name)
        source, title = GpuSource.of(lab.context("gpus")), f"lab {lab.spec.name}"
    else:
        source, title = GpuSource(cluster), context or cluster.kubeconfig.name
    try:
        if watch:
            _watch(source, title, as_json)
            return
        found = source.read()
    finally:
        source.cluster.close()
    print_json(found) if as_json else render_gpus(found, title, width=width)


def _watch(source: GpuSource, title: str, as_json: bool) -> None:
    """Follow until Ctrl-C or SIGTERM, which is the normal end and no error; the terminal is restored."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt, Interrupted), GpuFollow(source) as maps:
        watch_gpus(maps, title, as_json=as_json)
