"""Times ``kailab up`` (A) against the plain script (B) in pairs, and what a user does with the lab that is up."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from lab.engine.step import State
from lab.session.run_history import last_record
from lab.steps.node_image import NodeImage
from lab.supply.catalogue import kind_node
from scripts.bench.commands import KAILAB, ROOT, Timed, timed
from scripts.bench.figures import Figures, StepUse
from scripts.bench.sides import A, B, Bench, write_plain

PLAIN = ROOT / "scripts" / "bench" / "plain_lab.sh"

NETWORK = f"kailab-{B}"
"""Of B's nodes."""


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
        engine.call("load", "-q", "-i", bench.place("image", kind_node(bench.twin.cluster.kubernetes).name))
    for name in bench.loads():
        with Path(bench.place("image", name)).open("rb") as archive:
            while archive.read(1 << 24):
                pass
    timed([*KAILAB, "--help"], bench.work / "warm.log")  # compiles the modules
    return made


def up(bench: Bench, *, sample: bool = False) -> Timed:
    """Bring A up, or find it up."""
    return timed([*KAILAB, "up", "-f", bench.work / "lab.yaml", "--ui", "plain"], bench.work / "a.log", sample=sample)


def down(bench: Bench) -> None:
    """Remove A."""
    timed([*KAILAB, "down", "--name", A, "--ui", "plain"], bench.work / "a-down.log")


def plain(bench: Bench, folder: Path) -> Timed:
    """Time B, with Helm's and kubectl's caches outside the home directory."""
    return timed(["bash", PLAIN, folder], bench.work / "b.log", plain_env(bench.work))


def plain_env(work: Path) -> dict[str, str]:
    """Environment of B. All of its runs share the caches, as a user's would."""
    helm = {f"HELM_{name}_HOME": str(work / "helm" / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    # a network of its own, which kind would leave behind: the lab's down keeps what it did not create
    return {**helm, "KUBECACHEDIR": str(work / "discovery"), "KIND_EXPERIMENTAL_DOCKER_NETWORK": NETWORK}


def delete(bench: Bench) -> None:
    """Remove B."""
    kind = [bench.place("binary", "kind"), "delete", "cluster", "--name", f"kailab-{B}"]
    kubeconfig = bench.work / "deleted.kubeconfig"  # kind would use the user's
    timed([*kind, "--kubeconfig", kubeconfig], bench.work / "b-down.log", {"KIND_EXPERIMENTAL_PROVIDER": bench.engine})
    bench.lab.session.engine.call("network", "rm", NETWORK, check=False)


def pairs(bench: Bench, figures: Figures, runs: int) -> None:
    """Alternate A and B."""
    for number in range(runs):
        folder = write_plain(bench, bench.work / f"plain-{number}")
        taken: dict[str, Timed] = {}
        for side in "AB" if number % 2 == 0 else "BA":
            if side == "A":
                taken[side] = up(bench, sample=True)
                figures.steps = steps_of(bench, taken[side])
                down(bench)
            else:
                taken[side] = plain(bench, folder)
                delete(bench)
        print(f"pair {number + 1} of {runs}, {'A' if number % 2 == 0 else 'B'} first", flush=True)
        figures.add("up", taken["A"].seconds)
        figures.add("script", taken["B"].seconds)
        figures.add("up/script ratio", taken["A"].seconds / taken["B"].seconds)


def steps_of(bench: Bench, run: Timed) -> tuple[StepUse, ...]:
    """The steps of the run that has just ended, with the longest chain of needs, and the CPU of the nodes."""
    record = last_record(bench.lab.paths.runs) or {"steps": [], "seconds": 0.0}
    offset = max(0.0, run.seconds - record["seconds"])  # the plan, before the first step
    rows: dict[str, Any] = {row["step"]: row for row in record["steps"]}
    critical = _chain({step.id: tuple(step.needs) for step in bench.plan.steps}, rows)
    planning = StepUse("start and plan", 0.0, offset, critical=True, cpu=None)
    return planning, *(
        StepUse(
            name,
            offset + row["began"],
            row["seconds"],
            name in critical,
            run.between(offset + row["began"], offset + row["began"] + row["seconds"]),
        )
        for name, row in sorted(rows.items(), key=lambda item: float(item[1]["began"]))
        if row["outcome"] != "unchanged"
    )


def _chain(needs: dict[str, tuple[str, ...]], rows: dict[str, Any]) -> set[str]:
    """The steps that the end of the run waited for: the last one, what it needed that ended last, and so on."""
    chain: set[str] = set()
    waiting = tuple(rows)
    while waiting:
        last = max(waiting, key=lambda name: float(rows[name]["began"] + rows[name]["seconds"]))
        chain.add(last)
        waiting = tuple(name for name in needs.get(last, ()) if name in rows and name not in chain)
    return chain


def quick(bench: Bench, figures: Figures, part: str, repeats: int) -> None:
    """Time a frequent command on a running lab: ``second``, ``status`` or ``help``."""
    log = bench.work / "quick.log"
    for _ in range(repeats):
        if part == "second":
            figures.add("second up", up(bench).seconds)
        elif part == "status":
            figures.add("status", timed([*KAILAB, "status", "--name", A], log).seconds)
        else:
            bare = timed([sys.executable, "-c", "pass"], log).seconds
            figures.add("--help over bare Python", timed([*KAILAB, "--help"], log).seconds - bare)


def e2e(bench: Bench, figures: Figures) -> None:
    """Time the suites once."""
    figures.add("e2e", timed([*KAILAB, "e2e", "--name", A], bench.work / "e2e.log", dict(os.environ)).seconds)
    tail = (bench.work / "e2e.log").read_text(errors="replace").strip().splitlines()
    figures.notes.append(f"e2e: {tail[-1] if tail else 'no output'} ({time.strftime('%H:%M')})")
