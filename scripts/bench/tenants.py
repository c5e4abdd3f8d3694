"""Times the removal of a tenant and the rollback of its KAI with 'lab' (A) and by hand (B), in pairs on a running lab.

    python -m scripts.bench.tenants --lab NAME removal          A: lab tenant remove       B: helm, kubectl
    python -m scripts.bench.tenants --lab NAME rollback --to V  A: change of KAI's version  B: helm uninstall, install

B is ``scripts/bench/tenants_plain.sh``. The same watches observe both sides from outside (``tenants_watch.py``), on a
separate tenant that is recreated for each removal; the order within a pair alternates. In a lab with KAI on the host,
an own-kai tenant changes that KAI too: measure in a lab without one.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lab.engine.milestones import Milestone
from lab.errors import LabError, NoLab
from lab.session.lab import Lab
from lab.tenants.removal.timeline import MEANING, READY_AGAIN
from scripts.bench.tenants_sides import PODS, Subject, kai_title
from scripts.bench.tenants_watch import ROLLBACK, RemovalSeen, RollbackSeen, tried

SIDES = ("lab", "by hand")
GONE = "all of it gone"
"""The last milestone up to a clean cluster scope."""

Times = dict[str, dict[str, list[float]]]
"""Seconds by milestone and side."""


def removals(subject: Subject, runs: int, times: Times) -> list[str]:
    """Time pairs of removals; returns the problems met."""
    wrong = []
    sides: dict[str, Callable[[], None]] = {"lab": subject.remove, "by hand": subject.remove_plain}
    subject.add()
    for number in range(runs):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            subject.fill(subject.ordinary_pods())
            seen = RemovalSeen(subject.lab.cluster, subject.lab.spec, subject.tenant).during(sides[side])
            if side != "lab":
                subject.remove()  # the tenant's files on this machine, and the labels and taints of its nodes
            again = Milestone(READY_AGAIN, seen.seconds + subject.add())
            seen = replace(seen, milestones=(*seen.milestones, again))
            wrong += [f"run {number + 1}, {side}: {line}" for line in (*seen.left, *seen.disturbed)]
            for moment in seen.milestones:
                if moment.seconds is None:
                    wrong.append(f"run {number + 1}, {side}: {moment.name}: {moment.detail}")
                else:
                    times.setdefault(moment.name, {}).setdefault(side, []).append(moment.seconds)
            times.setdefault(GONE, {}).setdefault(side, []).append(seen.seconds)
            print(f"run {number + 1}, {side}: gone after {seen.seconds:.1f} s", flush=True)
    return wrong


def rollbacks(subject: Subject, runs: int, times: Times) -> list[str]:
    """Time pairs of rollbacks; returns the problems met."""
    wrong = []
    options, back = subject.options, subject.options.to
    sides: dict[str, Callable[[str], None]] = {"lab": subject.rollback, "by hand": subject.rollback_plain}
    subject.add()
    subject.load_hook_images(options.kai, back)
    for version in (back, options.kai):  # the version before, with its images in the nodes
        subject.rollback(version)
    place = subject.fill(subject.running_pods())
    for number in range(runs):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            seen, lost = RollbackSeen(place, back, subject.test_pods()).during(partial(sides[side], back))
            wrong += [f"run {number + 1}, {side}: {line}" for line in lost]
            for name, seconds in seen.items():
                times.setdefault(name, {}).setdefault(side, []).append(seconds)
            took = ", ".join(f"{name} {seen[name]:.1f} s" for name in ROLLBACK)
            print(f"run {number + 1}, {side}: {took}", flush=True)
            subject.rollback(options.kai)
    return wrong


def spread(seconds: Sequence[float]) -> tuple[float, float, float, float]:
    """Minimum, median, 95th percentile (interpolated) and maximum."""
    p95 = statistics.quantiles(seconds, n=20, method="inclusive")[18] if len(seconds) > 1 else seconds[0]
    return min(seconds), statistics.median(seconds), p95, max(seconds)


def table(times: Mapping[str, Mapping[str, Sequence[float]]], order: Sequence[str]) -> list[str]:
    """A table of min, p50, p95 and max of both sides, and the ratio of the medians."""
    head = f"{'s':<22}" + "".join(f"{side + ' ' + word:>13}" for side in SIDES for word in ("min", "p50", "p95", "max"))
    lines = [head + f"{'p50 A/B':>10}"]
    for name in order:
        if name not in times:
            continue
        line, medians = f"{name:<22}", []
        for side in SIDES:
            if not (seconds := times[name].get(side)):
                line += f"{'-':>13}" * 4
                continue
            found = spread(seconds)
            medians.append(found[1])
            line += "".join(f"{value:>13.1f}" for value in found)
        ratio = f"{medians[0] / medians[1]:.2f}" if len(medians) == len(SIDES) and medians[1] else "-"
        lines.append(line + f"{ratio:>10}")
    return lines


def conditions(subject: Subject) -> list[str]:
    """The conditions of the measurement."""
    spec, load = subject.lab.spec, os.getloadavg()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    tenant, machine = subject.tenant, f"{os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.machine()}"
    inside = f"{tenant.mode}, vCluster {tenant.vcluster}, Kubernetes {tenant.kubernetes}"
    when = f"load {load[0]:.1f} {load[1]:.1f} {load[2]:.1f}; {time.strftime('%Y-%m-%d %H:%M')}"
    return [
        f"lab {spec.name}: Kubernetes {spec.cluster.kubernetes}, GPUs {subject.lab.gpu_mode}",
        f"tenant: {inside}, {kai_title(subject)}",
        f"machine: {machine}, Linux {platform.release()}, {when}",
    ]


def measure(subject: Subject, options: argparse.Namespace) -> int:
    """Measure, and always remove the tenant at the end."""
    times: Times = {}
    removal = options.what == "removal"
    try:
        wrong = (removals if removal else rollbacks)(subject, options.runs, times)
        print()
        print(*conditions(subject), sep="\n")
        print(f"{options.runs} runs" + (f", {PODS} pods in the tenant" if removal else f", back to {options.to}"))
        print(*table(times, [*MEANING, GONE] if removal else ROLLBACK), sep="\n")
        print(*(f"PROBLEM: {line}" for line in wrong), sep="\n")
        return 1 if wrong else 0
    finally:
        # a second signal must not interrupt the cleanup
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        tried(lambda: gone(subject), "left behind")


def gone(subject: Subject) -> None:
    """Remove the tenant, if it exists."""
    try:
        subject.remove()
    except NoLab:
        return


def _terminated(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("removal", "rollback"))
    parser.add_argument("--lab", help="name of a running lab")
    parser.add_argument("--runs", type=int, default=10, help="pairs (default 10)")
    parser.add_argument("--tenant", default="bench", help="name of the tenant to create (default bench)")
    parser.add_argument("--mode", default="own-kai", choices=("own-kai", "host-kai", "default"))
    parser.add_argument("--kai", default="", help="own-kai: KAI in the tenant; rollback: its version before")
    parser.add_argument("--to", default="", help="rollback: the version to return to")
    parser.add_argument("--kubernetes", default="", help="Kubernetes in the tenant; before KAI 0.9.4: 1.33")
    parser.add_argument("--nodes", type=int, default=0, help="dedicated workers of the tenant (own-kai: 1)")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: at least 1")
    if options.mode == "own-kai" and not options.kai:
        parser.error("--kai: required with own-kai")
    if options.what == "rollback" and (options.mode != "own-kai" or not options.to):
        parser.error("rollback: needs --mode own-kai and --to VERSION")
    return options


def main() -> int:
    """Parse the arguments and measure."""
    options = arguments()
    signal.signal(signal.SIGTERM, _terminated)
    with tempfile.TemporaryDirectory(prefix="kailab-bench-") as work:
        try:
            return measure(Subject(Lab.attach(options.lab), Path(work), options), options)
        except LabError as error:
            print(f"bench: {error.what}", *error.evidence, f"next: {error.fix}", sep="\n  ", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
