"""Time a warm ``lab up`` (A) against a plain script of the same commands on the same images (B), in pairs.

B is ``scripts/plain_lab.sh``: kind create cluster, kind load of each image, helm install of KAI with the chart's own
hooks, queues, then one vCluster after the other. Both leave GPUs out (gpu.mode none), as a plain script has none to
simulate. Node images are made and archives read once before the clock starts; the order within a pair alternates.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import socket
import statistics
import subprocess  # noqa: TID251 - what is measured runs as a person would run it
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # this checkout, also where another kailab is installed

from lab.api import Lab  # noqa: E402
from lab.engine.step import State  # noqa: E402
from lab.errors import Busy, LabError  # noqa: E402
from lab.parts.cluster.config import FIRST_NODE_PORT, PortMapping, kind_config, owners_of_ports  # noqa: E402
from lab.parts.images import NodeImage, base_image, control_plane_images, own_node  # noqa: E402
from lab.parts.kai.values import kai_deployments, kai_values  # noqa: E402
from lab.parts.kai.versions import line_of  # noqa: E402
from lab.parts.queues import queue_documents  # noqa: E402
from lab.parts.releases import value_at  # noqa: E402
from lab.parts.tenants import Port  # noqa: E402
from lab.parts.tenants.values import release_values  # noqa: E402
from lab.paths import assets, cache_root  # noqa: E402
from lab.plan import Plan, items_needed  # noqa: E402
from lab.spec import LabSpec, dump_spec, load_profile  # noqa: E402
from lab.supply import Item  # noqa: E402

A, B = "bench-a", "bench-b"
LAB = [sys.executable, "-m", "lab"]
COREDNS = "registry.k8s.io/coredns/coredns:"
REPEATS = 5
LIMIT = 1800.0


@dataclass
class Bench:
    """What all runs share. ``dry`` makes nothing that is not there yet."""

    work: Path
    spec: LabSpec
    lab: Lab
    plan: Plan
    dry: bool

    @property
    def twin(self) -> LabSpec:
        """The resolved lab under B's name."""
        return self.lab.spec.model_copy(update={"name": B})

    @property
    def engine(self) -> str:
        """docker, podman or nerdctl."""
        return self.lab.session.engine.name

    def place(self, kind: str, name: str) -> str:
        """Where an item lies; a dry run names the source of one that would have to be made."""
        supply, item = self.lab.session.supply, Item(kind, name)
        choice = supply.choose([item])[item]
        here = choice.source == "bundle" or choice.where == "cache" or kind == "binary"
        if self.dry and not (here and choice.source in ("present", "bundle")):
            return f"<{item}, from {choice.source}>"
        return str(supply.path(item))

    def base(self) -> NodeImage | None:
        """B's node image, with what kubeadm needs and no more; None where the released one has that already."""
        supply = self.lab.session.supply
        if not own_node(self.twin, supply):
            return None
        dns = [item for item in items_needed(self.twin, supply) if item.name.startswith(COREDNS)]
        return NodeImage.of(self.twin, supply, [*control_plane_images(self.twin, supply), *dns], ())

    def loads(self) -> list[str]:
        """Images that B loads into its nodes: the lab's, and those that only the chart's hooks run."""
        supply, base = self.lab.session.supply, self.base()
        inside = {item.name for item in base.images} if base else set()
        inside.add(base_image(self.twin).name)
        names = [item.name for item in items_needed(self.twin, supply) if item.kind == "image"]
        hooks = hook_images(self.twin) if self.lab.has_kai else ()
        return [name for name in dict.fromkeys([*names, *hooks]) if name not in inside]


def hook_images(spec: LabSpec) -> tuple[str, ...]:
    """Images of the chart's hook Jobs, which the lab itself does without."""
    values = kai_values(spec)
    registry, tag = value_at(values, "global.registry"), value_at(values, "global.tag")
    return tuple(f"{registry}/{name}:{tag}" for name in line_of(spec.kai.version).hook_images)


def without_kai(spec: LabSpec) -> LabSpec:
    """The same lab on the default scheduler."""
    tenants = tuple(tenant.model_copy(update={"mode": "default"}) for tenant in spec.tenants)
    return spec.model_copy(update={"scheduler": "default", "tenants": tenants, "queues": ()})


def prepare(work: Path, profile: str, dry: bool) -> Bench:
    """Resolve the lab that both sides make. Raises LabError."""
    spec = load_profile(profile, [f"name={A}", "gpu.mode=none"])
    lab = Lab.of(spec)
    plan, _ = lab.prepare()
    reason = lab.kai_reason
    if lab.has_kai:
        lacking = [name for name in hook_images(lab.spec) if not lab.session.supply.has("image", name)]
        if lacking:
            reason = f"the chart's hooks, which B runs, need {lacking[0]}, which cannot be had"
            spec = without_kai(spec)
            lab = Lab.of(spec)
            plan, _ = lab.prepare()
    if not lab.has_kai:
        print(f"NO KAI SCHEDULER on either side: {reason}")
    plan.refuse_missing()
    (work / "lab.yaml").write_text(dump_spec(spec))
    return Bench(work, spec, lab, plan, dry)


def warm(bench: Bench) -> list[str]:
    """Fetch, bake and read everything once; returns the node images that were not there before."""
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


def write_plain(bench: Bench, folder: Path) -> Path:
    """Write the folder that ``plain_lab.sh`` works from."""
    spec, base = bench.twin, bench.base()
    folder.mkdir(parents=True)
    ports = free_ports(owners_of_ports(spec))
    files: dict[str, Any] = {"kind.yaml": kind_config(spec, ports, own_node=base is not None)}
    if bench.lab.has_kai:
        files["kai.json"] = kai_values(spec)
        if spec.queues:
            files["queues.json"] = {"apiVersion": "v1", "kind": "List", "items": queue_documents(spec)}
    published = {port.owner: Port(port.host, port.node) for port in ports}
    for tenant in spec.tenants:
        files[f"tenant-{tenant.name}.json"] = release_values(spec, tenant, published[tenant.name])
    for name, data in files.items():
        text = yaml.safe_dump(data) if name.endswith(".yaml") else json.dumps(data, indent=1)
        (folder / name).write_text(text)
    (folder / "conflist.json").write_text((assets("kind") / "cni" / "conflist.json").read_text())
    (folder / "images").write_text("".join(f"{bench.place('image', name)}\n" for name in bench.loads()))
    tenants = "".join(f"{tenant.name} {published[tenant.name].host}\n" for tenant in spec.tenants)
    (folder / "tenants").write_text(tenants)
    helm = bool(spec.tenants) or bench.lab.has_kai
    settings = {
        "NAME": B, "ENGINE": bench.engine, "KIND": bench.place("binary", "kind"),
        "KUBECTL": bench.place("binary", "kubectl"), "HELM": bench.place("binary", "helm") if helm else "",
        "IMAGE": base.tag if base else base_image(spec).name, "OWN_NODE": "yes" if base else "no",
        "NODES": " ".join(node_names(spec)),
        "KAI_CHART": bench.place("chart", "kai-scheduler") if bench.lab.has_kai else "",
        "KAI_DEPLOYMENTS": (
            " ".join(f"deployment/{name}" for name in kai_deployments(spec)) if bench.lab.has_kai else ""
        ),
        "VCLUSTER_CHART": bench.place("chart", "vcluster") if spec.tenants else "",
    }  # fmt: skip
    (folder / "settings").write_text("".join(f"{k}={shlex.quote(v)}\n" for k, v in settings.items()))
    return folder


def node_names(spec: LabSpec) -> list[str]:
    """The node containers as kind names them."""
    counts = {"control-plane": spec.cluster.control_planes, "worker": spec.cluster.workers}
    return [f"{B}-{role}{n if n > 1 else ''}" for role, count in counts.items() for n in range(1, count + 1)]


def free_ports(owners: Sequence[str]) -> tuple[PortMapping, ...]:
    """Ports of 127.0.0.1 that are free now."""
    sockets = [socket.socket() for _ in owners]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return tuple(
            PortMapping(owner, listener.getsockname()[1], FIRST_NODE_PORT + number)
            for number, (owner, listener) in enumerate(zip(owners, sockets, strict=True))
        )
    finally:
        for listener in sockets:
            listener.close()


def timed(argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> float:
    """Run a command, its output to a file; returns seconds. Raises LabError with the end of its output."""
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT,
            env={**os.environ, **(env or {})}, start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(timeout=LIMIT)
        except BaseException:
            stop(process)
            raise
    seconds = time.monotonic() - began
    if code != 0:
        tail = log.read_text(errors="replace").splitlines()[-30:]
        what = f"{shlex.join(map(str, argv))} ended with {code} after {seconds:.1f} s"
        raise LabError(what, evidence=tail, fix="read the lines above; the pair was not counted")
    return seconds


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it started: first asked, then killed."""
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
    """Side A."""
    return timed([*LAB, "up", "-f", bench.work / "lab.yaml", "--ui", "plain"], bench.work / "a.log")


def down(bench: Bench) -> None:
    """Take A away."""
    timed([*LAB, "down", "--name", A, "--ui", "plain"], bench.work / "a-down.log")


def plain(bench: Bench, folder: Path) -> float:
    """Side B, with Helm's and kubectl's caches kept out of the home directory."""
    return timed(
        ["bash", ROOT / "scripts" / "plain_lab.sh", folder], bench.work / "b.log", plain_env(bench.work)
    )


def plain_env(work: Path) -> dict[str, str]:
    """Variables of B. The caches are shared by all its runs, as a person's would be."""
    helm = {f"HELM_{name}_HOME": str(work / "helm" / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    return {**helm, "KUBECACHEDIR": str(work / "discovery")}


def delete(bench: Bench) -> None:
    """Take B away."""
    kind = [bench.place("binary", "kind"), "delete", "cluster", "--name", B]
    kubeconfig = bench.work / "deleted.kubeconfig"  # kind would look into the user's
    timed(
        [*kind, "--kubeconfig", kubeconfig],
        bench.work / "b-down.log",
        {"KIND_EXPERIMENTAL_PROVIDER": bench.engine},
    )


def pairs(bench: Bench, runs: int) -> dict[str, list[float]]:
    """Alternate A and B; the small commands are timed on the last lab that is up."""
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
    """Seconds of what is run often, on a lab that is up."""
    commands = {
        "lab status": [*LAB, "status", "--name", A],
        "lab --help": [*LAB, "--help"],
        "second lab up": [*LAB, "up", "-f", bench.work / "lab.yaml", "--ui", "plain"],
    }
    log = bench.work / "quick.log"
    return {name: [timed(argv, log) for _ in range(REPEATS)] for name, argv in commands.items()}


def measure(bench: Bench, runs: int, keep_images: bool) -> None:
    """Everything, and whatever happens nothing is left."""
    made: list[str] = []
    try:
        down(bench)
        delete(bench)
        made = warm(bench)
        for name, seconds in pairs(bench, runs).items():
            print(f"{name}: {statistics.median(seconds):.2f} s (median of {len(seconds)})")
    finally:
        # a second signal must not cut the cleaning up short; handlers, unlike SIG_IGN, are not inherited
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        for clean in (down, delete):
            attempt(clean, bench)
        for tag in [] if keep_images else made:
            bench.lab.session.engine.call("rmi", tag, check=False)


def attempt(clean: Callable[[Bench], None], bench: Bench) -> None:
    """Clean up one side; a failure must not keep the other from its turn."""
    try:
        clean(bench)
    except LabError as error:
        print(f"left behind: {error.what}", *error.evidence, sep="\n  ", file=sys.stderr)


def show(bench: Bench) -> None:
    """Print the commands of B; nothing is made."""
    folder = write_plain(bench, bench.work / "plain")
    # what only the real run knows (pod CIDRs, addresses) is shown by name
    env = {**os.environ, "DRY_RUN": "1"}
    subprocess.run(["bash", ROOT / "scripts" / "plain_lab.sh", folder], env=env, check=True)


def _terminated(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Parse arguments, hold the lock, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="pairs (default 3)")
    parser.add_argument("--profile", default="demo", help="which shipped lab (default demo)")
    parser.add_argument("--dry-run", action="store_true", help="print the commands of B and stop")
    parser.add_argument("--keep-images", action="store_true", help="keep node images baked for this")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: at least 1")
    signal.signal(signal.SIGTERM, _terminated)
    from filelock import FileLock, Timeout

    with tempfile.TemporaryDirectory(prefix="kailab-bench-") as name:
        work = Path(name)
        os.environ["KAILAB_STATE"] = str(work / "state")
        try:
            bench = prepare(work, options.profile, options.dry_run)
            if options.dry_run:
                show(bench)
                return 0
            try:
                with FileLock(cache_root() / "bench.lock", timeout=0):
                    measure(bench, options.runs, options.keep_images)
            except Timeout:
                raise Busy("another bench runs on this machine", fix="wait for it") from None
        except LabError as error:
            print(f"bench: {error.what}", *error.evidence, f"next: {error.fix}", sep="\n  ", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
