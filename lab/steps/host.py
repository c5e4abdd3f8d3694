"""Step ``host``: the machine can run the lab. The host journal records changes; ``kailab down --host`` undoes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.engine.journal import Journal
from lab.engine.step import Effect, Observed
from lab.errors import HostNotReady
from lab.host.fixes import Fix
from lab.paths import host_journal, host_lock
from lab.session.context import LabContext
from lab.session.step import LabStep
from lab.tools.lock import lock


@dataclass(frozen=True)
class HostReady(LabStep):
    """The fixes that this machine needs, in order; ``for_builds`` are those that only a build from source needs."""

    fixes: tuple[Fix, ...]
    for_builds: tuple[Fix, ...] = ()
    engine: bool = True
    """Whether the lab needs a container engine."""
    needs: tuple[str, ...] = ()
    id: str = "host"
    title: str = "This machine"

    @property
    def part_of(self) -> str:
        """Empty: other labs may need the changes, so only 'kailab down --host' undoes them."""
        return ""

    def of_plan(self, *, builds: bool) -> HostReady:
        """The step for a plan that builds items, or builds none."""
        return replace(self, fixes=(*self.fixes, *self.for_builds) if builds else self.fixes, for_builds=())

    def wanted(self) -> object:
        return self.fixes

    def effects(self) -> tuple[Effect, ...]:
        undo = "kailab down --host"
        return tuple(Effect("host", f"{fix.title}: {'; '.join(fix.commands)}", undo) for fix in self.fixes)

    def observe(self, ctx: LabContext) -> Observed:
        return Observed.absent(f"{len(self.fixes)} fixes") if self.fixes else Observed.ready()

    def apply(self, ctx: LabContext) -> None:
        journal = Journal(host_journal())
        with lock(host_lock(), ctx.run.stopped, lambda: ctx.progress("another process changes this machine; waiting")):
            for number, fix in enumerate(self.fixes, 1):
                ctx.progress(fix.title, number, len(self.fixes))
                fix.apply(ctx.run, journal)

    def verify(self, ctx: LabContext) -> None:
        if self.engine and ctx.engine.call("version", check=False).code != 0:
            raise HostNotReady(f"{ctx.engine.name} does not answer", fix="kailab doctor")
