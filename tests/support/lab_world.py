"""A lab's context over a FakeApiServer and fake tools, and objects that Helm and steps create."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.config import LabSpec
from lab.engine.events import Bus, Event
from lab.engine.journal import Journal
from lab.paths import LabPaths
from lab.session.context import KIND_CLUSTER_LABEL, LabContext
from lab.tools.container import Container, ContainerEngine
from tests.support.fake_api_server import FakeApiServer
from tests.support.fakes import FakeRunner

Json = dict[str, Any]


class FakeSupply:
    """A supply with the items that a test added."""

    def __init__(self, charts: Mapping[str, Path]) -> None:
        self.charts = charts
        self.asked: list[str] = []

    def binary(self, name: str) -> Path:
        return Path("/cache") / name

    def at_hand(self, kind: str, name: str, version: str = "") -> bool:
        return name in self.charts

    def chart(self, name: str, version: str = "") -> Path:
        self.asked.append(f"{name} {version}".strip())
        return self.charts[name]


class FakeEngine(ContainerEngine):
    """An engine with the lab's ``nodes``; None, or another question: the runner answers."""

    nodes: tuple[Container, ...] | None = ()

    def containers(self, label: str) -> tuple[Container, ...]:
        if self.nodes is not None and label.startswith(KIND_CLUSTER_LABEL):
            return self.nodes
        return super().containers(label)


class LabWorld:
    """A lab's context over fakes; helm commands must be declared with ``helm``."""

    def __init__(self, spec: LabSpec, runner: FakeRunner, tmp: Path, **charts: Path) -> None:
        self.spec = spec
        self.log: list[str] = []
        self.api = FakeApiServer(log=self.log)
        self.tenants: dict[str, FakeApiServer] = {}
        self.runner = runner
        self.events: list[Event] = []
        self.paths = LabPaths(spec.name)
        self.paths.root.mkdir(parents=True)
        self.paths.kubeconfig.write_text("current-context: kind-kailab\n")
        self.engine = FakeEngine(runner)
        bus = Bus()
        bus.subscribe(self.events.append)
        self.ctx = LabContext(
            step="step",
            spec=spec,
            paths=self.paths,
            run=runner,
            journal=Journal(tmp / "journal.jsonl"),
            bus=bus,
            supply=FakeSupply({name.replace("_", "-"): path for name, path in charts.items()}),  # type: ignore[arg-type]
            engine=self.engine,
            open_cluster=lambda name: (self.tenants[name] if name else self.api).cluster,
        )

    def helm(self, *words: object, out: str = "") -> Any:
        """Declare a helm command, whose verb is logged."""

        def answer(call: Any) -> str:
            self.log.append("helm " + " ".join(str(word) for word in call.argv[1:3]))
            return out

        return self.runner.handle(["/cache/helm", *words], out=answer)

    def starts(self, node: str, at: str) -> None:
        """Let a node's container have started at this time, RFC 3339."""
        self.engine.nodes = (*(self.engine.nodes or ()), Container(node, node, "running", {}, "", started=at))

    def owned(self, kind: str) -> list[str]:
        """Return the names of the resources that the lab owns according to the journal."""
        return [owned.name for owned in self.ctx.journal.owned(kind)]
