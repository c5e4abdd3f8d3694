"""What a node with real GPUs should have, what it says it has (kind/gpu/nvidia/state.sh), and how these differ."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.config.gpu import ToolkitOptions
from lab.gpu.simulated.node_files import HOME, RUNTIME_CONFIG, runtime_config
from lab.host.nvml import GpuDevice
from lab.paths import assets
from lab.session.context import LabContext

LIST = "/etc/kailab/gpus"
SCRIPT = f"{HOME}/nvidia-gpus"
UNIT = "kailab-nvidia.service"
CDI_SPEC = "/etc/cdi/nvidia.json"

PROGRAMS = ("nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook")
"""What of NVIDIA's container toolkit a node needs, in /usr/bin."""


@dataclass(frozen=True)
class RealFiles:
    """The lab's files in one node: text by path. A node that has no GPUs gets those that take them away."""

    texts: Mapping[str, str]

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
        return cls(texts)

    def sums(self) -> dict[str, str]:
        """sha256 of each text by its path."""
        return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in self.texts.items()}

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
            # only when needed: a reload makes systemd set the device rules of running pods anew
            f"systemctl is-enabled --quiet {UNIT} || systemctl --quiet enable {UNIT}",
            f'[ "$(systemctl show -p NeedDaemonReload --value {UNIT})" != yes ] || systemctl daemon-reload',
            f"systemctl restart {UNIT} || {{ journalctl -u {UNIT} -n 12 --no-pager -o cat >&2; exit 1; }}",
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class RealState:
    """One look at a node.

    Attributes:
        sums: sha256 by path.
        minors: the N of each /dev/nvidiaN.
        modify: ModifyDeviceFiles as the node sees it; empty when it does not see it.
        gpus: UUIDs that NVML tells in the node now.
        spec: UUIDs that the node's CDI spec names.
        unit: ``enabled active`` when all is well.
        programs: the toolkit's programs that are there.
        handler: whether containerd has the runtime handler ``nvidia``.
    """

    sums: Mapping[str, str] = field(default_factory=dict)
    minors: frozenset[int] = frozenset()
    modify: str = ""
    gpus: frozenset[str] = frozenset()
    spec: frozenset[str] = frozenset()
    unit: str = ""
    programs: frozenset[str] = frozenset()
    handler: bool = False

    @property
    def untouched(self) -> bool:
        """Whether the lab never put anything of its own here."""
        return SCRIPT not in self.sums

    @property
    def missing_programs(self) -> tuple[str, ...]:
        """Programs of the toolkit that the node lacks."""
        return tuple(name for name in PROGRAMS if f"/usr/bin/{name}" not in self.programs)


def look(ctx: LabContext, node: str, files: RealFiles) -> RealState:
    """Ask a running node container what it has. Raises CommandFailed."""
    script = (assets("kind") / "gpu" / "nvidia" / "state.sh").read_text()
    return parse(ctx.engine.exec(node, ["sh", "-s", "--", *files.texts], stdin=script, timeout=60).out)


def parse(text: str) -> RealState:
    """Read what state.sh printed."""
    words: dict[str, list[str]] = {}
    sums: dict[str, str] = {}
    for line in text.splitlines():
        head, _, rest = line.partition(" ")
        if head == "sum":
            digest, _, path = rest.partition(" ")
            sums[path.strip()] = digest
        else:
            words.setdefault(head, []).append(rest.strip())
    return RealState(
        sums=sums,
        minors=frozenset(int(minor) for minor in words.get("minor", []) if minor.isdigit()),
        modify=words.get("modify", [""])[0],
        gpus=frozenset(words.get("gpu", [])),
        spec=frozenset(words.get("spec", [])),
        unit=words.get("unit", [""])[0],
        programs=frozenset(words.get("program", [])),
        handler="handler" in words,
    )


def differences(files: RealFiles, gpus: Sequence[GpuDevice], state: RealState) -> tuple[str, ...]:
    """What differs from the plan, a line each; empty when nothing does."""
    lines = [
        f"{path} {'differs' if path in state.sums else 'is missing'}"
        for path, digest in files.sums().items()
        if state.sums.get(path) != digest
    ]
    minors = {gpu.minor for gpu in gpus}
    lines += [f"/dev/nvidia{minor} is missing" for minor in sorted(minors - state.minors)]
    lines += [f"/dev/nvidia{minor} is not this node's" for minor in sorted(state.minors - minors)]
    if state.modify not in ("", "0"):
        lines.append("NVML may make device nodes of other GPUs (ModifyDeviceFiles is not 0)")
    wanted = {gpu.uuid for gpu in gpus}
    for where, seen in (("NVML in the node", state.gpus), (CDI_SPEC, state.spec)):
        lines += [f"{where} does not know {uuid}" for uuid in sorted(wanted - seen)]
        lines += [f"{where} knows {uuid}, which is not this node's" for uuid in sorted(seen - wanted)]
    if state.unit != "enabled active":
        lines.append(f"{UNIT} is {state.unit or 'missing'}, should be enabled and active")
    return tuple(lines)
