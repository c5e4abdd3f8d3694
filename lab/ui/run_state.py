"""The state of a run, built from its events; the live displays share it."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.engine.events import Event, RunFinished, RunStarted, StepFinished, StepProgress, StepStarted
from lab.text import count, seconds

OUTCOMES = ("changed", "unchanged", "failed", "cancelled", "blocked")


@dataclass
class StepRow:
    """One step. ``state`` is waiting, running or an outcome; ``began`` in seconds since the run started."""

    id: str
    title: str
    state: str = "waiting"
    began: float = 0.0
    seconds: float = 0.0
    text: str = ""
    done: int | None = None
    total: int | None = None
    detail: str = ""

    @property
    def ended(self) -> bool:
        return self.state in OUTCOMES

    @property
    def note(self) -> str:
        """Text beside the title of a step that ended."""
        if self.state == "changed":
            # The engine's detail is the state before the change.
            return f"was: {self.detail}" if self.detail else ""
        return f"{self.state}: {self.detail}" if self.detail else self.state

    @property
    def took(self) -> str:
        """Duration of a step that ran; empty for others."""
        return seconds(self.seconds) if self.ended and self.state != "blocked" else ""

    @property
    def count(self) -> str:
        """Progress in figures: ``3/12``, percent for large totals (bytes), empty if unknown."""
        if not self.total or self.done is None:
            return ""
        return f"{self.done}/{self.total}" if self.total < 1000 else f"{self.done * 100 // self.total}%"

    @property
    def progress(self) -> str:
        """Progress in words and figures."""
        return " ".join(part for part in (self.text, self.count) if part)


@dataclass
class RunState:
    """Follows the events of one run after another."""

    lab: str = ""
    verb: str = ""
    estimate: float | None = None
    rows: dict[str, StepRow] = field(default_factory=dict)

    def feed(self, event: Event) -> StepRow | None:
        """Apply an event; returns the row that it is about, if any."""
        match event:
            case RunStarted():
                self.lab, self.verb, self.estimate = event.lab, event.verb, event.estimate
                self.rows = {step: StepRow(step, title) for step, title in event.steps}
                return None
            case StepStarted():
                row = self._row(event.step)
                row.began = event.at if row.state == "waiting" else row.began
                row.state = "running"
            case StepProgress():
                row = self._row(event.step)
                if row.state == "waiting":  # a step may report progress while it observes
                    row.state, row.began = "running", event.at
                row.text, row.done, row.total = event.text, event.done, event.total
            case StepFinished():
                row = self._row(event.step)
                row.seconds, row.detail = event.seconds, event.detail
                row.state = event.outcome if event.outcome in OUTCOMES else "failed"
            case _:
                return None
        return row

    def _row(self, step: str) -> StepRow:
        return self.rows.setdefault(step, StepRow(step, step))

    def count(self, state: str) -> int:
        """Number of steps in a state."""
        return sum(row.state == state for row in self.rows.values())

    @property
    def name(self) -> str:
        """The command of the run: ``kailab up demo``."""
        return f"kailab {self.verb} {self.lab}".strip()

    def summary(self, end: RunFinished) -> str:
        """The run in one line."""
        counts = [f"{n} {state}" for state in OUTCOMES if (n := self.count(state))]
        if left := self.count("waiting"):
            counts.append(f"{left} not started")
        tail = f" ({', '.join(counts)})" if counts else ""
        took = seconds(end.seconds)
        if end.ok and not end.changed:
            return f"{self.name}: nothing to do, {count(len(self.rows), 'step')} as planned ({took})"
        if end.ok:
            return f"{self.name}: done in {took}{tail}"
        verb = "failed" if self.count("failed") else "stopped"
        return f"{self.name}: {verb} after {took}{tail}"
