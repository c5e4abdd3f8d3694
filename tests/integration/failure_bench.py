"""A scratch host on which NVIDIA's own programs, runc, kubeadm and others fail for real, without a cluster."""

from __future__ import annotations

import json
import platform
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.config import LabSpec
from lab.gpu.diagnosis.node_facts import parse, script
from lab.gpu.diagnosis.node_stages import Expected, node_stages
from lab.gpu.nvidia.mounts import LIBRARIES
from lab.paths import assets
from lab.supply import Supply, gomod
from lab.supply.catalogue import GoRecipe, load
from lab.tools.container import ContainerEngine
from lab.tools.process import HostRunner
from tests.integration.scratch import ScratchHost, scratch_host
from tests.integration.scratch.driver import GPUS, VERSION

KUBELET_DIR = "/var/lib/kubelet/device-plugins"
LIBRARY = f"{LIBRARIES[platform.machine()]}/libnvidia-ml.so.{VERSION}"
"""The driver's library on the scratch host."""

_DOCTOR = """
import sys
from lab.host.check import HostNeeds
from lab.host.facts import gather
from lab.host.machine import Machine
from lab.host.check import CheckContext
from lab.host.nvidia.doctor import findings
from lab.tools.process import HostRunner
run = HostRunner()
for one in findings(CheckContext(gather(run), run, Machine(), HostNeeds(gpu="nvidia")), sys.argv[1]):
    if one.severity in ("warning", "error"):
        print(one.what)
"""


@dataclass(frozen=True)
class Bench:
    """The scratch host and the programs that run on it."""

    host: ScratchHost
    plugin: Path

    def sh(self, text: str, *hidden: str, timeout: float = 120) -> str:
        """Run a shell script and return its output. Its mounts end with it, and hidden files come back."""
        hide = "".join(f"mount --bind /dev/null {path}\n" for path in hidden)
        body = f"exec 2>&1\n{hide}{textwrap.dedent(text)}"
        return self.host.run("unshare", "-m", "sh", "-c", body, code=None, timeout=timeout).out

    @contextmanager
    def without(self, *paths: str) -> Iterator[None]:
        """Hide files until the end of the block."""
        for path in paths:
            self.host.run("mv", path, f"{path}.away")
        try:
            yield
        finally:
            for path in paths:
                self.host.run("mv", f"{path}.away", path)

    def doctor(self, strategy: str = "auto", *hidden: str) -> str:
        """Return the doctor's findings about the machine's GPUs."""
        return self.sh(self.doctor_command(strategy), *hidden)

    def doctor_command(self, strategy: str) -> str:
        """Return the command that prints them."""
        place = self.host.home / "doctor.py"
        place.write_text(_DOCTOR)
        return f"{sys.executable} {place} {strategy}"

    def nvml(self, *hidden: str) -> str:
        """Return pynvml's error when it finds nothing."""
        return self.sh(f"{sys.executable} -c 'from lab.host.nvml import query; print(query().why)'", *hidden)

    def run_plugin(self, until: str = "error starting plugins", *hidden: str, **env: str) -> str:
        """Run NVIDIA's device plugin until its log has the text, or it ends; return its log."""
        words = " ".join(f"{key}={value}" for key, value in env.items())
        return self.sh(
            f"""
            mkdir -p {KUBELET_DIR}
            : >/run/plugin.log  # an earlier run's words are not this one's
            {words} {self.plugin} >/run/plugin.log 2>&1 &
            for _ in $(seq 600); do
                grep -q '{until}' /run/plugin.log && break
                kill -0 $! 2>/dev/null || break
                sleep 0.1
            done
            kill -9 $! 2>/dev/null  # one that may stop in peace first waits for the kubelet, in vain
            wait $!
            cat /run/plugin.log
        """,
            *hidden,
        )

    def container(
        self,
        *env: str,
        config: Sequence[tuple[str, str]] = (),
        spec: Any = None,
        runc: str = "nvidia-container-runtime",
        program: str = "/true",
        hidden: Sequence[str] = (),
    ) -> str:
        """Create a container with NVIDIA's runtime, and return its output.

        Args:
            env: environment of the container.
            config: replacements in the toolkit's configuration of the lab's nodes.
            spec: the CDI spec, if any.
            runc: another runtime.
            program: command of the container.
            hidden: files to hide meanwhile.
        """
        home = self.host.home / "oci"
        for folder in ("rootfs", "config/nvidia-container-runtime", "cdi"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        text = (assets("kind") / "gpu" / "nvidia-container-runtime.toml").read_text()
        for before, after in (
            ('"/etc/cdi", "/var/run/cdi"', f'"{home / "cdi"}"'),
            ('"runc", "crun"', '"/usr/sbin/runc.real"'),
            *config,
        ):
            assert before in text, before
            text = text.replace(before, after)
        (home / "config" / "nvidia-container-runtime" / "config.toml").write_text(text)
        (home / "cdi" / "gpus.json").unlink(missing_ok=True)
        if spec is not None:
            (home / "cdi" / "gpus.json").write_text(json.dumps(spec))
        return self.sh(
            f"""
            cd {home}
            rm -f config.json
            runc.real spec
            {sys.executable} - {" ".join(env)} <<'END'
            import json, pathlib, sys
            place = pathlib.Path("config.json")
            spec = json.loads(place.read_text())
            spec["process"].update(terminal=False, args=["{program}"], env=sys.argv[1:])
            spec["linux"]["cgroupsPath"] = "/kailab-failures"
            place.write_text(json.dumps(spec))
            END
            export XDG_CONFIG_HOME={home}/config
            {runc} --root {home}/run create --bundle {home} failing </dev/null
            runc.real --root {home}/run delete -f failing 2>/dev/null
        """,
            *hidden,
        )

    def node(self, before: str = "") -> str:
        """Diagnose the scratch host as a node, one line for each problem; run ``before`` first."""
        place = self.host.home / "diagnose.sh"
        place.write_text(script())
        facts = parse("node", self.sh(f"{textwrap.dedent(before)}\nsh {place}"))
        stages = node_stages(facts, Expected({gpu.uuid: gpu.minor for gpu in GPUS}, real=True))
        return "\n".join(trouble.what for stage in stages for trouble in stage.problems)


@contextmanager
def failure_bench() -> Iterator[Bench]:
    """A bench; skips if no scratch host can run here."""
    run = HostRunner()
    supply = Supply(LabSpec(), run, ContainerEngine(run), engine_runs=False)
    with scratch_host(supply.binary("container-toolkit")) as host:
        yield Bench(host, _plugin(run) / "nvidia-device-plugin")


def recipe(name: str) -> GoRecipe:
    """Build a program from its module."""
    return load(LabSpec().cluster.kubernetes).go[name]


def _plugin(run: HostRunner) -> Path:
    """Return the device plugin's program; built in seconds if it is not in the cache."""
    if not gomod.folder_of(recipe("device-plugin")).is_dir() and shutil.which("go") is None:
        pytest.skip("the device plugin's program is not in the cache, and there is no Go to build it")
    return gomod.build(recipe("device-plugin"), run, lambda *_: None)


def kubernetes(name: str) -> Path:
    """Return a program of Kubernetes that an earlier lab left in the cache; skips if none exists."""
    found = gomod.folder_of(recipe("kubernetes")) / name
    if not found.is_file():
        pytest.skip(f"{name} is not in the cache: a lab whose node image is built here puts it there")
    return found


def containerd(config: str, until: str) -> Callable[[Bench], str]:
    """Start a separate containerd with a configuration, and return its log up to the text ``until``."""
    return lambda bench: bench.sh(f"""
        cat >/run/containerd.toml <<'END'
{config}
END
        cd /run
        containerd -c containerd.toml --root /run/c/root --state /run/c/state --address /run/c/sock >log 2>&1 &
        for _ in $(seq 600); do
            grep -q '{until}' log && break
            kill -0 $! 2>/dev/null || break
            sleep 0.1
        done
        kill -9 $! 2>/dev/null
        wait $!
        cat log
    """)
