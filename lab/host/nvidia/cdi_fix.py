"""Fix ``nvidia-cdi``: a CDI spec that names every GPU by its UUID."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.engine.journal import Journal
from lab.errors import HostNotReady
from lab.host.docker_config import NVIDIA, require_unused
from lab.host.file_backup import EDIT, records, restore_file, write_file
from lab.host.machine import Machine
from lab.host.nvidia import cdi
from lab.host.nvidia.strategies import CDI_FIX
from lab.tools.process import Runner


@dataclass(frozen=True)
class NvidiaCdi:
    """Generates the spec for the loaded driver with NVIDIA's toolkit, replacing an outdated one."""

    machine: Machine = field(default_factory=Machine)
    id: str = CDI_FIX
    title: str = "write the CDI spec of this machine's NVIDIA GPUs"

    @property
    def commands(self) -> tuple[str, ...]:
        return (self.machine.shown(f"{' '.join(cdi.GENERATE)} --output={self._place()}"),)

    def _place(self) -> str:
        # two specs of the same devices would be rejected as ambiguous
        return cdi.read(self.machine).path or cdi.PLACE

    def apply(self, run: Runner, journal: Journal) -> None:
        generated = self.machine.as_root(run).run(list(cdi.GENERATE), check=False, timeout=60)
        if generated.code != 0 or f"kind: {cdi.KIND}" not in generated.out:
            raise HostNotReady(
                "nvidia-ctk generated no CDI spec",
                command=" ".join(cdi.GENERATE),
                evidence=generated.err.splitlines()[-8:],
                fix="run 'kailab doctor', or set gpu.strategy: explicit-mounts, which needs no spec",
            )
        write_file(run, self.machine, journal, self.id, self._place(), generated.out.encode(), kind=EDIT)

    def undo(self, run: Runner, journal: Journal) -> list[str]:
        changes = records(journal, self.id, EDIT)
        if changes:
            require_unused(run, self.machine, NVIDIA, f"the CDI spec {changes[0].name}")
        return [restore_file(run, self.machine, journal, change) for change in changes]
