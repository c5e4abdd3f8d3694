"""``kailab gpu``: fail, heal, models."""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from lab.cli.completion import complete_gpu
from lab.cli.lazy import command_app
from lab.cli.options import AsJson, Name, print_json
from lab.config.gpu_models import gpu_models
from lab.errors import SpecError
from lab.gpu.pools import short_name
from lab.gpu.simulated import fault_injection
from lab.gpu.simulated.devices import gpu_uuid
from lab.gpu.simulated.fault_injection import GpuRef, every_gpu, find, ignored
from lab.gpu.simulated.health import OFF_THE_BUS, Health
from lab.session.context import LabContext
from lab.session.lab import Lab
from lab.ui.text_writer import render_table

app = command_app(no_args_is_help=True)


class GpuRow(TypedDict):
    """A GPU of a lab."""

    name: str
    node: str
    index: int
    uuid: str


class Failed(TypedDict):
    """A GPU with its new state."""

    gpu: GpuRow
    state: str
    failed: bool
    note: str


class Healed(TypedDict):
    """The GPUs that are healthy again."""

    healed: list[GpuRow]


@app.command(epilog="Examples: kailab gpu fail worker/0 · … fail worker2/1 --xid 94 · … fail worker/0 --lost")
def fail(
    gpu: Annotated[
        str,
        typer.Argument(
            metavar="NODE/INDEX", help="The GPU; the node by its full or short name.", autocompletion=complete_gpu
        ),
    ],
    xid: Annotated[int, typer.Option("--xid", min=1, max=999, help="The XID error that it reports.")] = 48,
    lost: Annotated[bool, typer.Option("--lost", help="It falls off the bus: XID 79, and NVML loses it.")] = False,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Make a simulated GPU fail, and wait until its node no longer offers it. 'kailab up' does not heal it."""
    lab = Lab.attach(name)
    ctx = lab.context("gpu")
    health = Health(OFF_THE_BUS, lost=True) if lost else Health(xid)
    chosen = find(ctx, gpu)
    with lab.session.locked():
        fault_injection.fail(ctx, chosen, health)
    note = ignored(health)
    if as_json:
        print_json(Failed(gpu=_row(ctx, chosen), state=str(health), failed=health.failed, note=note))
    else:
        typer.echo(f"{_row(ctx, chosen)['name']}: {health}; {note or f'next: kailab gpu heal {gpu}'}")


@app.command(epilog="Examples: kailab gpu heal worker/0 · kailab gpu heal --all")
def heal(
    gpus: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE/INDEX]...", help="The GPUs.", autocompletion=complete_gpu)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All GPUs of the lab.")] = False,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Heal simulated GPUs, and wait until their nodes offer them again. Restarts their device plugins."""
    if bool(gpus) == every:
        fix = "kailab gpu heal NODE/INDEX, or kailab gpu heal --all"
        raise SpecError("either GPUs or --all must be given", fix=fix)
    lab = Lab.attach(name)
    ctx = lab.context("gpu")
    chosen = every_gpu(ctx) if every else tuple(find(ctx, gpu) for gpu in gpus or ())
    with lab.session.locked():
        healed = [_row(ctx, gpu) for gpu in fault_injection.heal(ctx, chosen)]
    if as_json:
        print_json(Healed(healed=healed))
    else:
        typer.echo("\n".join(f"{row['name']}: healthy again" for row in healed) or "nothing to heal: all are healthy")


@app.command(epilog="Example: kailab gpu models --json")
def models(as_json: AsJson = False) -> None:
    """List the GPU models that a lab file can name, with the figures of the real GPUs."""
    if as_json:
        print_json(gpu_models())
        return
    headings = ("short", "name", "memory", "compute", "architecture", "PCI id")
    rows = [
        (one.short, one.name, f"{one.memory} MiB", one.compute, one.arch, f"10de:{one.device:04x}")
        for one in gpu_models()
    ]
    render_table("GPU models", headings, rows)


def _row(ctx: LabContext, gpu: GpuRef) -> GpuRow:
    return {
        "name": f"{short_name(ctx.spec.name, gpu.node)}/{gpu.index}",
        "node": gpu.node,
        "index": gpu.index,
        "uuid": gpu_uuid(ctx.spec.name, gpu.node, gpu.index),
    }
