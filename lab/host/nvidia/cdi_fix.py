"""Fix ``nvidia-cdi``: this machine has a CDI spec that names every GPU by its UUID."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.errors import HostNotReady, Leftovers
from lab.host.file_backup import HostJournal, put_back, records, write_file
from lab.host.machine import Machine
from lab.host.nvidia import cdi
from lab.host.nvidia.engine_config import RUNTIME
from lab.host.nvidia.file_journal import Edits, users_of
from lab.host.nvidia.strategies import CDI_FIX
from lab.tools.process import Runner


@dataclass(frozen=True)
class NvidiaCdi:
    """Has NVIDIA's toolkit write the spec of the loaded driver, in place of one that is out of date."""

    machine: Machine = field(default_factory=Machine)
    id: str = CDI_FIX
    title: str = "write the CDI spec of this machine's NVIDIA GPUs"

    @property
    def commands(self) -> tuple[str, ...]:
        return (self.machine.shown(f"{' '.join(cdi.GENERATE)} --output={self._place()}"),)

    def _place(self) -> str:
        # beside a stale one of the same devices both would be refused as ambiguous
        return cdi.look(self.machine).path or cdi.PLACE

    def apply(self, run: Runner, journal: HostJournal) -> None:
        """Generate and write.

        Raises:
            HostNotReady: the toolkit found no driver.
            CommandFailed: the file cannot be written.
        """
        made = self.machine.hands(run).run(list(cdi.GENERATE), check=False, timeout=60)
        if made.code != 0 or f"kind: {cdi.KIND}" not in made.out:
            raise HostNotReady(
                "nvidia-ctk made no CDI spec",
                command=" ".join(cdi.GENERATE),
                evidence=made.err.splitlines()[-8:],
                fix="lab doctor; or set gpu.strategy: explicit-mounts, which needs no spec",
            )
        write_file(run, self.machine, Edits(journal), self.id, self._place(), made.out.encode(), "0644")

    def undo(self, run: Runner, journal: HostJournal) -> list[str]:
        """Restore the file, or remove it.

        Raises:
            Leftovers: containers that NVIDIA's runtime made may need the spec to start again.
        """
        edits = Edits(journal)
        mine = records(edits, self.id)
        if mine and (users := users_of(run, RUNTIME)):
            raise Leftovers(
                f"the CDI spec {mine[0].name} stays: containers may need it to start",
                evidence=users,
                fix=f"docker rm -f -v {' '.join(users)}, then run the same command again",
            )
        return [put_back(run, self.machine, edits, known) for known in mine]
