"""Files of a node with real GPUs, and how the node's state (kind/gpu/nvidia/state.sh) differs from them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from lab.config.gpu import ToolkitOptions
from lab.gpu.node_state import LabFiles, NodeState, unit_difference
from lab.gpu.simulated.node_files import HOME, RUNTIME_CONFIG, runtime_config
from lab.host.nvml import GpuDevice
from lab.paths import assets

LIST = "/etc/kailab/gpus"
SCRIPT = f"{HOME}/nvidia-gpus"
UNIT = "kailab-nvidia.service"
CDI_SPEC = "/etc/cdi/nvidia.json"


@dataclass(frozen=True)
class RealFiles(LabFiles):
    """The lab's files in one node. Those of a node without GPUs remove the device nodes of all GPUs."""

    gpus: tuple[GpuDevice, ...]

    script = "nvidia/state.sh"
    timeout = 60
    marker = SCRIPT
    programs = ("nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook")

    @classmethod
    def of(cls, gpus: Sequence[GpuDevice], options: ToolkitOptions) -> RealFiles:
        shipped = assets("kind") / "gpu" / "nvidia"
        texts = {
            LIST: "".join(f"{gpu.minor} {gpu.uuid}\n" for gpu in gpus),
            SCRIPT: (shipped / "gpus.sh").read_text(),
            f"/etc/systemd/system/{UNIT}": (shipped / UNIT).read_text(),
        }
        if gpus:
            texts[RUNTIME_CONFIG] = runtime_config((shipped / "config.toml").read_text(), options)
        return cls(texts, tuple(gpus))

    def installer(self) -> str:
        """A shell script that puts the files in place, by rename, and runs the unit; safe to run again."""
        lines = ["set -eu"]
        for path, text in self.texts.items():
            mode = "0755" if path == SCRIPT else "0644"
            lines += [
                f"mkdir -p $(dirname {path})",
                f"printf %s {shlex.quote(text)} >{path}.kailab",
                f"chmod {mode} {path}.kailab",
                f"mv -f {path}.kailab {path}",
            ]
        lines += [
            # systemd does not answer yet in a node that is just starting
            "tries=0",
            "until systemctl show -p Version >/dev/null 2>&1 || [ $tries -ge 300 ]; do",
            "    tries=$((tries + 1)); sleep 0.1",
            "done",
            # only when needed: a reload makes systemd reset the device rules of running pods
            f"systemctl is-enabled --quiet {UNIT} || systemctl --quiet enable {UNIT}",
            f'[ "$(systemctl show -p NeedDaemonReload --value {UNIT})" != yes ] || systemctl daemon-reload',
            f"systemctl restart {UNIT} || {{ journalctl -u {UNIT} -n 12 --no-pager -o cat >&2; exit 1; }}",
        ]
        return "\n".join(lines) + "\n"

    def obstacles(self, state: NodeState, *, gpus: bool) -> list[str]:
        if not self.gpus:
            return ["got no GPU when it was created"] if gpus else []
        return [] if state.handler else ["containerd has no runtime handler 'nvidia'"]

    def differences(self, state: NodeState) -> list[str]:
        lines = super().differences(state)
        wanted, seen = {gpu.minor for gpu in self.gpus}, {int(minor) for minor in state.all("minor") if minor.isdigit()}
        lines += [f"/dev/nvidia{minor} is missing" for minor in sorted(wanted - seen)]
        lines += [f"/dev/nvidia{minor} belongs to another node" for minor in sorted(seen - wanted)]
        if state.first("modify") not in ("", "0"):
            lines.append("NVML may create device nodes of other GPUs (ModifyDeviceFiles is not 0)")
        uuids = {gpu.uuid for gpu in self.gpus}
        for where, found in (("NVML in the node", state.all("gpu")), (CDI_SPEC, state.all("spec"))):
            lines += [f"{where} does not list {uuid}" for uuid in sorted(uuids - found)]
            lines += [f"{where} lists {uuid} of another node" for uuid in sorted(found - uuids)]
        return lines + unit_difference(UNIT, state.first("unit"))
