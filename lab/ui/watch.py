"""The results of ``kailab watch`` as text."""

from __future__ import annotations

from lab.operations.watch import WatchedInvariant, WatchedQueue, WatchInstalled, WatchRemoved, WatchStatus
from lab.text import count, seconds
from lab.ui.text_writer import Cell, TextWriter
from lab.watch.names import NAME, PORT


def render_watch_installed(done: WatchInstalled, page: TextWriter | None = None) -> None:
    """What was installed, and how to see it."""
    page = page or TextWriter()
    page.line((f"{done.cluster}: ", "bold"), ("the watch runs", "bold green"), f"  after {seconds(done.seconds)}")
    page.line(f"{count(len(done.objects), 'object')}, image {done.image}", indent=1)
    if done.skipped:
        page.line(f"not applied, as the cluster has no Prometheus Operator: {', '.join(done.skipped)}", indent=1)
    page.next(f"scrape http://{NAME}.{NAME}:{PORT}/metrics, or: kailab watch status")


def render_watch_status(found: WatchStatus, page: TextWriter | None = None) -> None:
    """The violations that last, the canary pods, and the watch's own load."""
    page = page or TextWriter()
    if not found.installed:
        page.line((f"{found.cluster}: ", "bold"), "no watch is installed")
        page.next("kailab watch install")
        return
    if not found.ready:
        page.line((f"{found.cluster}: ", "bold"), ("the watch is not ready", "bold yellow"))
        return
    verdict = ("no violation lasts", "bold green")
    if found.violations:
        lasts = "lasts" if found.violations == 1 else "last"
        verdict = (f"{count(found.violations, 'violation')} {lasts}", "bold red")
    page.line((f"{found.cluster}: ", "bold"), verdict, f"  KAI {found.kai_version or 'unknown'}")
    page.table(("", "invariant", "now", "total", ""), [_row(page, one) for one in found.invariants])
    if found.canaries:
        page.heading("Canary pods")
        page.table(
            ("queue", "bound", "mean", "not bound"),
            [[one.queue, str(one.bound), _mean(one), str(one.failures)] for one in found.canaries],
        )
    page.blank()
    requests = sum(found.api_requests.values())
    page.line(f"{found.memory_bytes / 2**20:.0f} MiB resident, {count(requests, 'API request')} since its start")


def render_watch_removed(done: WatchRemoved, page: TextWriter | None = None) -> None:
    """What was removed, and what was left alone."""
    page = page or TextWriter()
    what = "the watch is removed" if done.removed else "no watch was installed"
    page.line((f"{done.cluster}: ", "bold"), what, f"  after {seconds(done.seconds)}")
    for line in done.kept:
        page.marked("warn", f"{line}, and is left alone", indent=1)


def _mean(one: WatchedQueue) -> str:
    return "-" if one.mean_seconds is None else seconds(one.mean_seconds)


def _row(page: TextWriter, one: WatchedInvariant) -> list[Cell]:
    state = "skip" if not one.evaluated else "fail" if one.now else "ok"
    glyph, style = page.sign(state)
    detail: Cell = (one.title, "dim") if one.evaluated else ("cannot be evaluated", "dim")
    if one.now and one.defects:
        detail = (
            f"{'' if one.proven else 'perhaps '}{', '.join(one.defects)}; cured in {', '.join(one.cured_in)}",
            style,
        )
    return [(glyph, style), one.id, str(one.now), str(one.total), detail]
