"""Times a warm ``lab up`` (A) against a plain script of the same commands on the same images (B), in pairs.

B is ``plain_lab.sh``: kind create cluster, kind load of each image, helm install of KAI with the chart's own
hooks, queues, then one vCluster after the other. Neither has GPUs (gpu.mode none), as a plain script cannot simulate
them. Node images are built and archives are read once before the clock starts; the order within a pair alternates.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import statistics
import subprocess  # noqa: TID251 - measures the commands as a user runs them
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.engine.step import State
from lab.errors import Busy, LabError
from lab.paths import cache_root
from lab.steps.node_image import NodeImage, base_image
from lab.tools.lock import lock_now
from scripts.bench.sides import ROOT, A, B, Bench, prepare, write_plain

LAB = [sys.executable, "-m", "lab"]
REPEATS = 5
SECOND_UP = "second lab up"
SECOND_UP_SECONDS = 3.0
"""More fails the benchmark."""
LIMIT = 1800.0


def warm(bench: Bench) -> list[str]:
    """Fetch, build and read everything once; returns the node images that were built."""
    made = []
    engine = bench.lab.session.engine
    steps = [s for s in bench.plan.steps if s.id.startswith("supply:") or isinstance(s, NodeImage)]
    base = bench.base()
    for step in [*steps, *([base] if base else [])]:
        scope = bench.lab.context(step.id)
        if step.observe(scope).state is not State.READY:
            print(f"before the clock starts: {step.title}", flush=True)
            step.apply(scope)
            made += [step.tag] if isinstance(step, NodeImage) else []
    if base is None:
        engine.call("load", "-q", "-i", bench.place("image", base_image(bench.twin).name))
    for name in bench.loads():
        with Path(bench.place("image", name)).open("rb") as archive:
            while archive.read(1 << 24):
                pass
    return made


def timed(argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> float:
    """Run a command with its output in a file; returns seconds. Raises LabError with the end of the output."""
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=LIMIT)
        except BaseException:
            stop(process)
            raise
    seconds = time.monotonic() - began
    if code != 0:
        tail = log.read_text(errors="replace").splitlines()[-30:]
        what = f"{shlex.join(map(str, argv))} ended with {code} after {seconds:.1f} s"
        raise LabError(what, evidence=tail, fix="see the output above; the pair was not counted")
    return seconds


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate a command and its children, then kill them."""
    for how, patience in ((signal.SIGTERM, 60.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, how)
            process.wait(timeout=patience)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return


def up(bench: Bench) -> float:
    """Time side A."""
    return timed([*LAB, "up", "-f", bench.work / "lab.yaml", "--ui", "plain"], bench.work / "a.log")


def down(bench: Bench) -> None:
    """Remove A."""
    timed([*LAB, "down", "--name", A, "--ui", "plain"], bench.work / "a-down.log")


def plain(bench: Bench, folder: Path) -> float:
    """Time side B, with Helm's and kubectl's caches outside the home directory."""
    return timed(
        ["bash", ROOT / "scripts" / "bench" / "plain_lab.sh", folder], bench.work / "b.log", plain_env(bench.work)
    )


def plain_env(work: Path) -> dict[str, str]:
    """Environment of B. All of its runs share the caches, as a user's would."""
    helm = {f"HELM_{name}_HOME": str(work / "helm" / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    return {**helm, "KUBECACHEDIR": str(work / "discovery")}


def delete(bench: Bench) -> None:
    """Remove B."""
    kind = [bench.place("binary", "kind"), "delete", "cluster", "--name", B]
    kubeconfig = bench.work / "deleted.kubeconfig"  # kind would use the user's
    timed([*kind, "--kubeconfig", kubeconfig], bench.work / "b-down.log", {"KIND_EXPERIMENTAL_PROVIDER": bench.engine})


def pairs(bench: Bench, runs: int) -> dict[str, list[float]]:
    """Alternate A and B; time the quick commands on the last lab."""
    ratios: list[float] = []
    small: dict[str, list[float]] = {}
    taken: dict[str, list[float]] = {"A": [], "B": []}
    for number in range(runs):
        folder = write_plain(bench, bench.work / f"plain-{number}")
        for side in "AB" if number % 2 == 0 else "BA":
            if side == "A":
                taken["A"].append(up(bench))
                if number == runs - 1:
                    small = quick(bench)
                down(bench)
            else:
                taken["B"].append(plain(bench, folder))
                delete(bench)
        a, b = taken["A"][-1], taken["B"][-1]
        ratios.append(a / b)
        order = "A first" if number % 2 == 0 else "B first"
        print(f"pair {number + 1} ({order}): lab up {a:.1f} s, script {b:.1f} s, A/B {a / b:.2f}", flush=True)
    print(
        f"median of {runs}: lab up {statistics.median(taken['A']):.1f} s, "
        f"script {statistics.median(taken['B']):.1f} s, A/B {statistics.median(ratios):.2f}"
    )
    return small


def quick(bench: Bench) -> dict[str, list[float]]:
    """Seconds of frequent commands on a running lab."""
    commands: dict[str, list[str | Path]] = {
        "lab status": [*LAB, "status", "--name", A],
        "lab --help": [*LAB, "--help"],
        SECOND_UP: [*LAB, "up", "-f", bench.work / "lab.yaml", "--ui", "plain"],
    }
    log = bench.work / "quick.log"
    return {name: [timed(argv, log) for _ in range(REPEATS)] for name, argv in commands.items()}


def measure(bench: Bench, runs: int, keep_images: bool) -> None:
    """Measure everything, and always clean up. Raises LabError if a second ``lab up`` takes longer than its limit."""
    made: list[str] = []
    try:
        down(bench)
        delete(bench)
        made = warm(bench)
        medians = {name: statistics.median(seconds) for name, seconds in pairs(bench, runs).items()}
        for name, median in medians.items():
            print(f"{name}: {median:.2f} s (median of {REPEATS})")
        if medians[SECOND_UP] > SECOND_UP_SECONDS:
            what = f"{SECOND_UP} took {medians[SECOND_UP]:.2f} s, more than {SECOND_UP_SECONDS:g} s"
            raise LabError(what, fix="run it on a machine that does nothing else; 'lab.log' has each command's seconds")
    finally:
        # a second signal must not interrupt the cleanup; unlike SIG_IGN, handlers are not inherited
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        for clean in (down, delete):
            attempt(clean, bench)
        for tag in [] if keep_images else made:
            bench.lab.session.engine.call("rmi", tag, check=False)


def attempt(clean: Callable[[Bench], None], bench: Bench) -> None:
    """Clean up one side; a failure must not stop the cleanup of the other."""
    try:
        clean(bench)
    except LabError as error:
        print(f"left behind: {error.what}", *error.evidence, sep="\n  ", file=sys.stderr)


def show(bench: Bench) -> None:
    """Print the commands of B without running them."""
    folder = write_plain(bench, bench.work / "plain")
    # values known only at run time (pod CIDRs, addresses) are printed by name
    env = {**os.environ, "DRY_RUN": "1"}
    subprocess.run(["bash", ROOT / "scripts" / "bench" / "plain_lab.sh", folder], env=env, check=True)


def _terminated(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Parse the arguments, take the lock and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="pairs (default 3)")
    parser.add_argument("--profile", default="demo", help="which shipped lab (default demo)")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of B and stop")
    parser.add_argument("--keep-images", action="store_true", help="keep node images built for this")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: at least 1")
    signal.signal(signal.SIGTERM, _terminated)
    with tempfile.TemporaryDirectory(prefix="kailab-bench-") as name:
        work = Path(name)
        os.environ["KAILAB_STATE"] = str(work / "state")
        try:
            bench = prepare(work, options.profile, options.dry_run)
            if options.dry_run:
                show(bench)
                return 0
            held = lock_now(cache_root() / "bench.lock")
            if held is None:
                raise Busy("another bench runs on this machine", fix="wait until it ends")
            with held:
                measure(bench, options.runs, options.keep_images)
        except LabError as error:
            print(f"bench: {error.what}", *error.evidence, f"next: {error.fix}", sep="\n  ", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
