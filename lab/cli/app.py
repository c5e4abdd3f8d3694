"""All commands. Each is a few lines: resolve the options, call the API, render."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.bundle import bundle_app
from lab.cli.doctor import doctor
from lab.cli.explain import explain
from lab.cli.gpu import gpu_app
from lab.cli.gpus import gpus
from lab.cli.kai import kai_app
from lab.cli.lint import lint
from lab.cli.options import (
    AsJson,
    File,
    Name,
    Profile,
    Require,
    Settings,
    Ui,
    Yes,
    lab_of,
    print_json,
    required,
    spec_of,
)
from lab.cli.report import report
from lab.cli.tenant import tenant_app
from lab.cli.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.engine.step import Effect

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A lab for GPU scheduling on Kubernetes: kind, GPUs, KAI Scheduler, queues and vClusters from one file.",
    epilog="Exit codes are listed by 'lab exit-codes'. --debug shows a traceback.",
)
app.add_typer(bundle_app, name="bundle")
app.add_typer(gpu_app, name="gpu")
app.add_typer(kai_app, name="kai")
app.add_typer(tenant_app, name="tenant")
app.command(epilog="Examples: lab lint pod.yaml · lab lint manifests/ --kai 0.9.8 · lab lint --rules")(lint)
app.command(epilog="Examples: lab gpus · lab gpus --watch · lab gpus --kubeconfig FILE --context NAME")(gpus)
app.command(epilog="Examples: lab explain team/pod · lab explain pod -n ns --tenant my-vcluster · lab explain --all")(
    explain
)
app.command(epilog="Examples: lab verify · lab verify --for 60 · lab verify --kubeconfig F --context C --json")(verify)
app.command(epilog="Examples: lab doctor · lab doctor --profile gpu · lab doctor --log - < error.txt")(doctor)
app.command(epilog="Examples: lab report · lab report --out demo.html --open")(report)


@app.command(epilog="Examples: lab up --yes · lab up -f my.yaml --set gpu.perNode=4 --require kai")
def up(
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    name: Name = None,
    yes: Yes = False,
    require: Require = None,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Bring the lab up, or finish what an earlier run began. Running it twice changes nothing."""
    from lab.cli.signals import stopping
    from lab.ui import attach
    from lab.ui.lab import render_up

    lab = lab_of(file, profile, settings, name)
    needs = required(require)
    with stopping(lab.session.cancel), attach(lab.bus, "json" if ui == "json" else ui):
        report = lab.up(require=needs, ask=_asker(yes))
    print_json(report.as_json()) if as_json else render_up(report)


@app.command(epilog="Examples: lab plan · lab plan --profile minimal --json")
def plan(
    file: File = None,
    profile: Profile = None,
    settings: Settings = None,
    name: Name = None,
    require: Require = None,
    as_json: AsJson = False,
) -> None:
    """Show every step, what it will do to this machine, where everything comes from. Changes nothing."""
    from lab.ui.plan import render_plan

    report = lab_of(file, profile, settings, name).plan(required(require))
    print_json(report.as_json()) if as_json else render_plan(report)
    if report.plan.missing:
        report.plan.refuse_missing()


@app.command(epilog="Examples: lab status · lab status --name demo --json")
def status(name: Name = None, as_json: AsJson = False) -> None:
    """How the lab stands: each step, tenants, kubeconfigs. Exit code 5 when something is not ready."""
    from lab.api import Lab
    from lab.ui.lab import render_status

    report = Lab.attach(name).status()
    print_json(report.as_json()) if as_json else render_status(report)
    if not report.ok:
        raise typer.Exit(5)


@app.command(epilog="Examples: lab down · lab down --images · lab down --host --yes")
def down(
    file: File = None,
    profile: Profile = None,
    name: Name = None,
    images: Annotated[bool, typer.Option("--images", help="Also remove the baked node images.")] = False,
    host: Annotated[bool, typer.Option("--host", help="Also undo what was changed on this machine.")] = False,
    yes: Yes = False,
    ui: Ui = "auto",
    as_json: AsJson = False,
) -> None:
    """Take the lab away from any half-made state, and prove that nothing is left."""
    import threading

    from lab.api import down as take_down
    from lab.cli.signals import stopping
    from lab.engine.events import Bus
    from lab.errors import HostNotReady, NoLab
    from lab.session.session import name_of
    from lab.ui import attach
    from lab.ui.lab import render_down

    try:
        which = spec_of(file, profile, None, name).name if file or profile else name_of(name)
    except NoLab:
        # several labs must be told apart; none at all is what 'down' is for
        from lab.paths import lab_names

        if lab_names():
            raise
        which = spec_of(None, None, None).name
    if host and not yes and not _confirm("undo the changes of this machine (other labs may need them)?"):
        raise HostNotReady("--host was not agreed to", fix="run with --yes")
    bus, cancel = Bus(), threading.Event()
    with stopping(cancel), attach(bus, ui):
        report = take_down(which, keep_images=not images, host=host, bus=bus, cancel=cancel, unnamed=name is None)
    print_json(report.as_json()) if as_json else render_down(report)


@app.command(epilog="Examples: lab logs · lab logs --out /tmp/demo-logs --budget 60")
def logs(
    name: Name = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write to.")] = None,
    budget: Annotated[float, typer.Option("--budget", help="Seconds to spend.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Collect events, objects and logs of the lab into a folder, within a time budget."""
    from lab.api import Lab
    from lab.report.artifacts import collect_lab

    lab = Lab.attach(name)
    folder = out or Path(f"kailab-logs-{lab.spec.name}")
    files = collect_lab(lab, folder, budget=budget)
    data = {"folder": str(folder.absolute()), "files": [str(file) for file in files]}
    print_json(data) if as_json else typer.echo(f"{len(files)} files in {folder.absolute()}")


@app.command(epilog="Examples: kubectl --kubeconfig $(lab kubeconfig) get pods -A · lab kubeconfig my-vcluster")
def kubeconfig(
    tenant: Annotated[str | None, typer.Argument(help="A tenant; without it the lab's own cluster.")] = None,
    name: Name = None,
) -> None:
    """Print the path of a kubeconfig of the lab."""
    from lab.api import Lab

    lab = Lab.attach(name)
    cluster = lab.tenant(tenant) if tenant else lab.cluster
    typer.echo(cluster.kubeconfig)


@app.command(epilog="Example: lab schema > lab.schema.json")
def schema() -> None:
    """Print the JSON Schema of lab files."""
    from lab.config import schema_text

    typer.echo(schema_text(), nl=False)


@app.command(epilog="Examples: lab init · lab init --profile minimal --out small.yaml")
def init(
    profile: Annotated[str, typer.Option("--profile", help="Which profile to start from.")] = "demo",
    out: Annotated[Path, typer.Option("--out", help="File to write; an existing one is kept.")] = Path("lab.yaml"),
) -> None:
    """Write a lab file with every key explained."""
    from lab.config import init_text
    from lab.errors import SpecError

    text = init_text(profile)
    try:
        with out.open("x") as target:
            target.write(text)
    except FileExistsError:
        raise SpecError(f"{out} exists and is kept", fix="name another file with --out") from None
    except OSError as error:
        raise SpecError(f"{out} cannot be written: {error.strerror}", fix="name another file with --out") from error
    typer.echo(f"wrote {out}; next: lab plan -f {out}")


@app.command("exit-codes")
def exit_codes() -> None:
    """List what each exit code means."""
    from lab.errors import EXIT_CODES

    for code, meaning in sorted(EXIT_CODES.items()):
        typer.echo(f"{code:>4}  {meaning}")


@app.command()
def version() -> None:
    """Print kailab's version."""
    from lab import __version__

    typer.echo(__version__)


def _asker(yes: bool) -> Callable[[tuple[Effect, ...]], bool]:
    def ask(effects: tuple[Effect, ...]) -> bool:
        if yes:
            return True
        from lab.ui.lab import render_effects

        render_effects(effects)
        return _confirm("make these changes?")

    return ask


def _confirm(question: str) -> bool:
    import sys

    return sys.stdin.isatty() and typer.confirm(question, err=True)
