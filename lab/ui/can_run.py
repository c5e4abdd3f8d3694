"""Whether workloads would run, as text."""

from __future__ import annotations

from lab.operations.can_run import CanRun
from lab.prediction import Answer
from lab.text import count
from lab.ui.text_writer import TextWriter

_VERDICTS = {
    "now": ("ok", "runs now"),
    "after-deletions": ("ok", "runs once pods that are being deleted are gone"),
    "after-evictions": ("warn", "runs after evictions"),
    "no": ("fail", "does not run"),
}


def render_can_run(result: CanRun, writer: TextWriter | None = None) -> None:
    """Each workload with its verdict, evictions, reasons, changes and estimates."""
    page = writer or TextWriter()
    for number, answer in enumerate(result.answers):
        if number:
            page.blank()
        _answer(page, answer)


def _answer(page: TextWriter, answer: Answer) -> None:
    sign, verdict = _VERDICTS[answer.verdict]
    by = f", by {answer.action}" if answer.evictions else ""
    page.paragraph(page.sign(sign), (f"{answer.workload} {verdict}{by}", "bold"))
    placed = sum(answer.placed.values())
    where = ", ".join(f"{number} on {node}" for node, number in sorted(answer.placed.items()))
    page.line(
        (f"queue {answer.queue}, {placed} of {count(answer.pods, 'pod')}{f': {where}' if where else ''}", "dim"),
        indent=2,
    )
    for move in answer.evictions:
        where = f"starts again on {move.to}" if move.to else "waits for room"
        page.paragraph(
            ("|", "dim"), f"evicts {move.pod} ({move.workload}, queue {move.queue}) from {move.node}; it {where}", 2
        )
    for reason in answer.reasons:
        page.paragraph(("|", "dim"), reason, 2)
    if answer.verdict == "no":
        page.next(", or ".join(answer.changes) or "no single change of its queue or its size lets it run now", indent=2)
    for note in answer.estimates:
        page.paragraph(page.sign("warn"), f"estimate: {note}", 2)
