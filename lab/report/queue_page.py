"""The queue tree as one HTML file: bars of what each queue has, deserves and may have; no network, no script."""

from __future__ import annotations

from lab.explain.queue_explanation import UNITS, QueueFigures, QueueTree
from lab.report.templates import render
from lab.report.timing_chart import TimingBar, TimingLane, bar


def queue_page(tree: QueueTree, title: str) -> str:
    """Return the page of a tree; ``title`` names the cluster."""
    rows = [queue.resources[tree.resource] for queue in tree.queues]
    scale = tree.scale
    lanes = [
        TimingLane(
            title="   " * queue.depth + queue.name,
            bars=tuple(_bars(row, scale)),
            words=f"{row.allocated:g} of {row.fair:g}",
            note="\n".join(queue.why),
            bad=any(finding.severity == "warning" for finding in queue.findings),
        )
        for queue, row in zip(tree.queues, rows, strict=True)
    ]
    return render(
        "queues.html.j2",
        styles=("page.css", "queues.css"),
        title=title,
        tree=tree,
        lanes=lanes,
        ticks=[(100 * part / 4, f"{scale * part / 4:g}") for part in range(5)] if scale else [],
        unit=UNITS[tree.resource],
    )


def _bars(row: QueueFigures, scale: float) -> list[TimingBar]:
    found = [bar("fair", 0, row.fair, scale, f"fair share {row.fair:g}")] if row.fair else []
    if row.allocated:
        found.append(bar("allocated", 0, row.allocated, scale, f"allocated {row.allocated:g}"))
    marks = (("quota", row.quota), ("limit", row.limit))
    return found + [bar(name, value, 0, scale, f"{name} {value:g}") for name, value in marks if value != -1]
