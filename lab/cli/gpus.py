"""``lab gpus``: which GPUs there are, and who has them."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.errors import Interrupted, SpecError
from lab.gpu.map.watch import GpuFollow, GpuSource
from lab.kube import Cluster
from lab.session.lab import Lab
from lab.ui.gpu_watch import watch_gpus
from lab.ui.gpus import render_gpus

app = command_app()

Kubeconfig = Annotated[Path | None, typer.Option("--kubeconfig", help="Any cluster instead of a lab; it is only read.")]
Context = Annotated[str | None, typer.Option("--context", help="Context in --kubeconfig. Default: its current one.")]


@app.command(epilog="Examples: lab gpus · lab gpus --watch · lab gpus --kubeconfig FILE --context NAME")
def gpus(
    name: Name = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on: a live table on a terminal, else a line for each change.")
    ] = False,
    width: Annotated[
        int | None, typer.Option("--width", min=60, help="Draw the table this wide, also into a file or pipe.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_json: AsJson = False,
) -> None:
    """Show node, GPU, reservation pod, pods, tenant and queue: what is free, whole, shared, over-committed."""
    source, title = source_of(name, kubeconfig, context)
    try:
        if watch:
            _watch(source, title, as_json)
            return
        found = source.read()
    finally:
        source.cluster.close()
    if as_json:
        print_json(found)
        return

    render_gpus(found, title, width=width)


def source_of(name: str | None, kubeconfig: Path | None, context: str | None) -> tuple[GpuSource, str]:
    """Where the map comes from, and whose it is.

    Raises:
        SpecError: the options contradict each other, or there is no such file.
        NoLab: there is no such lab.
    """
    if kubeconfig is None:
        if context is not None:
            raise SpecError("--context needs --kubeconfig", fix="name the file: --kubeconfig FILE --context NAME")

        lab = Lab.attach(name)
        return GpuSource.of(lab.context("gpus")), f"lab {lab.spec.name}"
    if name is not None:
        raise SpecError("--name and --kubeconfig are two clusters", fix="leave one of them out")
    if not kubeconfig.expanduser().is_file():
        raise SpecError(f"--kubeconfig: there is no file {kubeconfig}", fix="name a kubeconfig file")

    return GpuSource(Cluster(kubeconfig.expanduser(), context)), context or kubeconfig.name


def _watch(source: GpuSource, title: str, as_json: bool) -> None:
    """Follow until Ctrl-C or SIGTERM, which is how one leaves it and no error; the terminal is given back."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt, Interrupted), GpuFollow(source) as maps:
        watch_gpus(maps, title, as_json=as_json)
