"""Record real runs of commands for pages and the README's picture: ``python -m scripts.docs.record --lab NAME``.

The lab comes up first (take an existing one down before, so that the run is worth showing), gets three pods of which
one must wait, and loses them at the end; it stays up unless ``--down`` is given. Paths of this machine are replaced.
With ``--offline`` only commands that need no lab are recorded; runs of other commands stay as they are. Then the
picture is drawn: ``docs/assets/first-minutes.svg``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from lab.objects.views import PodView
from lab.paths import cache_root, state_root
from lab.session.lab import Lab
from lab.tools.process import HostRunner
from lab.workloads.namespace import WorkloadNamespace
from lab.workloads.pods import fraction_pod, gpu_pod
from scripts.docs.picture import PICTURE, draw
from scripts.docs.recording import ROOT, Recorded, recorded, save

COLUMNS = 96
NAMESPACE = "default"
SHARING, WAITING = ("infer", "train"), "big"
TERMINAL: Mapping[str, str] = MappingProxyType({"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"})
SECONDS = 1800.0

OFFLINE = (
    "kailab lint half.yaml",
    "kailab lint --explain fraction-key-unknown",
    "kailab explain --explain nodes.gpus",
    "kailab kai versions",
    "kailab gpu models",
    "kailab exit-codes",
)
UP = "kailab up --yes --ui plain"
SHOWN = (
    "kailab status",
    "kailab gpus",
    f"kailab explain {WAITING}",
    "kailab explain --all",
    "kailab explain queue",
    "kailab can-run half.yaml",
    "kailab verify",
    "kailab tenant list",
    "kailab kai advise",
)
E2E = "kailab e2e -k kai_pods"
DOWN = "kailab down --yes"

MISTAKE = """\
apiVersion: v1
kind: Pod
metadata:
  name: half
  labels: {kai.scheduler/queue: test}
  annotations: {kai.scheduler/gpu-fraction: "0.5"}
spec:
  schedulerName: kai-scheduler
  containers: [{name: main, image: "registry.kailab.dev/probe:2"}]
"""
"""The manifest of docs/tutorial/break-and-explain.md."""


def run(command: str, where: str, folder: Path, lab: str = "") -> Recorded:
    """Run a command as in a terminal of 96 columns, and return its output with times."""
    began = time.monotonic()
    lines: list[tuple[float, str]] = []

    def collect(line: str) -> None:
        lines.append((round(time.monotonic() - began, 2), masked(line, folder)))

    argv = [sys.executable, "-m", "lab", *shlex.split(command)[1:]]
    env = {**TERMINAL, "PYTHONPATH": str(ROOT), **({"KAILAB_LAB": lab} if lab else {})}
    done = HostRunner().run(argv, env=env, cwd=folder, timeout=SECONDS, check=False, on_line=collect)
    print(f"{command}: exit code {done.code}, {len(lines)} lines, {done.seconds:.1f} s")
    return Recorded(command, where, round(done.seconds, 1), done.code, tuple(lines))


def masked(line: str, folder: Path) -> str:
    """A line without paths of this machine."""
    names = {str(folder): ".", str(ROOT): "kailab", str(state_root()): "~/.local/state/kailab"}
    names |= {str(cache_root()): "~/.cache/kailab", str(Path.home()): "~", sys.prefix: "~/venv"}
    for path in sorted(names, key=len, reverse=True):
        line = line.replace(path, names[path])
    return line


@contextmanager
def pods(lab: Lab) -> Iterator[None]:
    """Two pods that share a GPU, and one that asks for more GPUs than a node has."""
    space = WorkloadNamespace(lab.spec.name, lab.cluster, lab.cluster, NAMESPACE)
    queue = next(iter(sorted(lab.spec.leaf_queues)))
    most = max(pool.per_node for pool in lab.spec.gpu_pools)
    try:
        space.submit(*(fraction_pod(name, fraction=0.5, queue=queue) for name in SHARING))
        space.running(*SHARING)
        space.submit(gpu_pod(WAITING, gpus=most + 1, queue=queue))
        space.on_host(_refused, WAITING, what="refused by the scheduler")
        yield
    finally:
        space.remove(*SHARING, WAITING)


def _refused(pod: PodView) -> bool:
    return any(one.type == "PodScheduled" and one.status == "False" for one in pod.conditions)


def on_lab(name: str, folder: Path, down: bool) -> Iterator[Recorded]:
    """Record the commands on a lab."""
    cores = f"{os.cpu_count()} cores"
    yield run(f"{UP} --name {name}", cores, folder)
    lab = Lab.attach(name)
    facts = lab.facts()
    where = ", ".join(part for part in (f"KAI {facts.get('kai_version', 'none')}", cores) if part)
    with pods(lab):
        for command in SHOWN:
            yield run(command, where, folder, name)
    yield run(E2E, where, folder, name)
    if down:
        yield run(DOWN, where, folder, name)


def main(argv: list[str]) -> int:
    """Record, save and draw; return 1 if a command that must succeed failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", help="the lab; it comes up if it is not there")
    parser.add_argument("--offline", action="store_true", help="only the commands that need no lab")
    parser.add_argument("--down", action="store_true", help="take the lab down at the end, and record that")
    given = parser.parse_args(argv)
    if not given.lab and not given.offline:
        parser.error("--lab NAME, or --offline")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "half.yaml").write_text(MISTAKE, encoding="utf-8")
        found = [run(command, "no lab", folder) for command in OFFLINE]
        if given.lab:
            found.extend(on_lab(given.lab, folder, given.down))
    new = {one.command for one in found}
    save((*found, *(one for one in recorded() if one.command not in new)))
    if given.lab:
        PICTURE.write_text(draw(found), encoding="utf-8")
        print(f"wrote {PICTURE.relative_to(ROOT)}")
    failed = [
        one.command for one in found if one.code and one.command.startswith(("kailab up", "kailab e2e", "kailab gpus"))
    ]
    print("\n".join(f"failed: {command}" for command in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
