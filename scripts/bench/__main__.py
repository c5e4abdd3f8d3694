"""Measures kailab on this machine: ``python -m scripts.bench``, or ``nox -s bench``.

Parts: up (a warm 'kailab up' against a plain script of the same lab: GPUs, KAI, queues, tenants), second, status, help,
tenants (add, remove, upgrade, rollback), e2e. Pairs alternate in their order. Node images are built and archives are
read once before the clock starts. Each run is appended to a history and compared with the last one there; only
--limits make it fail.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess  # noqa: TID251 - prints the commands of the script
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.errors import Busy, LabError
from lab.paths import cache_root, state_root
from lab.tools.lock import lock_now
from scripts.bench import up
from scripts.bench.figures import Figures, exceeded, last_run, limits_of, remember, table
from scripts.bench.page import page
from scripts.bench.sides import A, Bench, notes, prepare, write_plain
from scripts.bench.tenant_watch import tried
from scripts.bench.tenants import tenants

PARTS = ("up", "second", "status", "help", "tenants", "e2e")


def measure(bench: Bench, options: argparse.Namespace, figures: Figures) -> None:
    """Measure the parts, and always clean up."""
    made: list[str] = []
    try:
        up.down(bench)
        up.delete(bench)
        made = up.warm(bench)
        if "up" in options.only:
            up.pairs(bench, figures, options.pairs)
        rest = [part for part in PARTS if part in options.only and part != "up"]
        if set(rest) - {"help"}:
            up.up(bench)
        for part in rest:
            if part == "tenants":
                tenants(A, bench.work, figures, options.repeats, options.other_kai)
            elif part == "e2e":
                up.e2e(bench, figures)
            else:
                up.quick(bench, figures, part, options.repeats)
    finally:
        # a second signal must not interrupt the cleanup; unlike SIG_IGN, handlers are not inherited
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        cleaners: tuple[Callable[[Bench], None], ...] = (up.down, up.delete)
        for clean in cleaners:
            tried(lambda clean=clean: clean(bench), "left behind")  # type: ignore[misc]
        for tag in [] if options.keep_images else made:
            bench.lab.session.engine.call("rmi", tag, check=False)


def publish(figures: Figures, options: argparse.Namespace, history: Path) -> int:
    """Print the figures, write the files and return the exit code."""
    document = figures.document()
    before = last_run(history, document)
    rows = table(document, before)
    print("", *rows, *figures.notes, *(f"PROBLEM: {line}" for line in figures.problems), sep="\n")
    if before:
        print(f"the last run was of {before['time']}, kailab {before['kailab']}, load {before['machine']['load']}")
    for step in figures.steps:
        if step.critical:
            print(f"critical path: {step.step} {step.seconds:.1f} s, {step.verdict(os.cpu_count() or 1)}")
    remember(history, document)
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    if options.html:
        options.html.write_text(page(document, rows))
    over = exceeded(document, limits_of(options.limits))
    print(*(f"LIMIT: {line}" for line in over), sep="\n", file=sys.stderr)
    return 1 if over else 0


def show(bench: Bench) -> None:
    """Print the commands of the script without running them."""
    folder = write_plain(bench, bench.work / "plain")
    # values known only at run time (pod CIDRs, addresses) are printed by name
    subprocess.run(["bash", up.PLAIN, folder], env={**os.environ, "DRY_RUN": "1"}, check=True)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, by commas (default {','.join(PARTS)})")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of up and script (default 5)")
    parser.add_argument("--repeats", type=int, default=5, help="of everything else but e2e (default 5; p95 needs 20)")
    parser.add_argument("--profile", default="demo", help="which shipped lab (default demo)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of that lab")
    parser.add_argument("--other-kai", default="", help="KAI to change tenants to (default the newest one at hand)")
    parser.add_argument(
        "--limits", action="append", default=[], metavar="FILE|KEY=VALUE", help="fail above these seconds"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with the time of each step")
    parser.add_argument("--history", type=Path, metavar="FILE", help="default: bench.jsonl in kailab's state directory")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of the script and stop")
    parser.add_argument("--keep-images", action="store_true", help="keep node images built for this")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if unknown := [part for part in options.only if part not in PARTS]:
        parser.error(f"--only: {unknown[0]!r} is not one of {', '.join(PARTS)}")
    if min(options.pairs, options.repeats) < 1:
        parser.error("--pairs, --repeats: at least 1")
    return options


def _terminated(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Take the lock and measure."""
    options = arguments()
    signal.signal(signal.SIGTERM, _terminated)
    history = options.history or state_root() / "bench.jsonl"
    with tempfile.TemporaryDirectory(prefix="kailab-bench-") as name:
        work = Path(name)
        os.environ["KAILAB_STATE"] = str(work / "state")
        try:
            limits_of(options.limits)
            bench = prepare(work, options.profile, options.set, options.dry_run)
            if options.dry_run:
                show(bench)
                return 0
            held = lock_now(cache_root() / "bench.lock")
            if held is None:
                raise Busy("another bench runs on this machine", fix="wait until it ends")
            figures = Figures(notes=notes(bench), facts={"profile": options.profile, **dict(bench.plan.facts)})
            with held:
                measure(bench, options, figures)
            return publish(figures, options, history)
        except LabError as error:
            print(f"bench: {error.what}", *error.evidence, f"next: {error.fix}", sep="\n  ", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
