"""Pages of the site about KAI: one for each version line, and their index."""

from __future__ import annotations

from collections.abc import Iterator

from lab.kai import VersionLine, facts, lines
from lab.operations.rules import rules
from lab.ui.kai_versions import kubernetes, supported
from scripts.docs.markdown import inline, link, page, plain, prose, table
from scripts.docs.rule_pages import lint_lines

_NAMES = (
    ("queue", "label", "queue of a workload"),
    ("fraction", "annotation", "share of one GPU"),
    ("gpu_memory", "annotation", "GPU memory in MiB"),
    ("num_devices", "annotation", "number of devices with that share"),
    ("preemptibility", "label", "preemptible or not, regardless of the priority"),
    ("pod_group", "annotation", "PodGroup of a pod, written by the pod-grouper"),
    ("gpu_group", "label", "pods that share a GPU, and its reservation pod"),
    ("min_member", "annotation", "pods of a Job that must start together"),
    ("topology", "annotation", "Topology of a workload"),
)
"""Field of ``lab.kai.model.Keys``, where it is written, and what it is for."""


def kai_pages() -> dict[str, str]:
    """The pages by path."""
    pages = {f"reference/kai/{name}.md": _page(line) for name, line in lines().items()}
    rows = [
        (
            link(f"{line.first} to {line.last}", f"{name}.md"),
            plain(line.version),
            plain(supported(line.support)),
            plain(kubernetes(line.support)),
            str(len(line.defects)),
        )
        for name, line in lines().items()
    ]
    headings = ("releases", "version of the facts", "support", "Kubernetes", "known defects")
    return {**pages, "reference/kai/index.md": page("KAI versions", _ABOUT, table(headings, rows))}


_ABOUT = (
    "Releases that behave alike are a version line. What was run and what was only read is in"
    " [Limits of this release](../limits.md); `kailab kai versions` prints this offline."
)


def _page(line: VersionLine) -> str:
    title = f"KAI {line.first} to {line.last}" if line.first != line.last else f"KAI {line.version}"
    return page(title, *_blocks(line))


def _blocks(line: VersionLine) -> Iterator[str]:
    yield "[All versions](index.md)"
    levels = f"exactly {line.queue_levels}" if line.queue_levels else "any number"
    rows = [
        ("facts below are of", plain(line.version)),
        ("support", plain(supported(line.support))),
        ("Kubernetes", plain(kubernetes(line.support))),
        ("built with", plain(f"Kubernetes libraries {line.support.libraries}") if line.support.libraries else ""),
        ("levels of queues", plain(levels)),
        (
            "a pod of an unknown queue",
            "gets an event" if line.unknown_queue_event else "stays Pending without an event",
        ),
        ("scheduler", inline(line.scheduler_name)),
        ("chart", inline(line.chart)),
        ("features", ", ".join(inline(name) for name in sorted(line.features))),
        ("components", ", ".join(inline(name) for name in sorted(line.deployments))),
        ("default queues", ", ".join(inline(name) for name in line.default_queues)),
        ("webhooks", ", ".join(inline(name) for name in line.webhooks)),
    ]
    yield "\n".join(f"- **{name}**: {text}" for name, text in rows if text)
    yield "## Known defects\n\n" + _defects(line)
    keys = [
        (inline(getattr(line.keys, field)), where, what) for field, where, what in _NAMES if getattr(line.keys, field)
    ]
    yield "## Labels and annotations\n\n" + table(("name", "kind", "for"), keys)
    known = facts.at("keys", line.version)
    yield f"KAI's sources have {len(known)} labels and annotations at this release; `kailab lint` knows them all."
    yield "## Lint rules that not every version has\n\n" + _special_rules(line.name)


def _defects(line: VersionLine) -> str:
    if not line.defects:
        return "None is known."
    rows = [
        (link(one.id, f"../rules/defect/{one.id}.md"), prose(one.what), plain(one.fixed_in or "none known"))
        for one in line.defects
    ]
    return table(("defect", "what", "first release without it"), rows)


def _special_rules(name: str) -> str:
    """The rules of lint that find their example on this line, but not on every one."""
    lint = [one for one in rules() if one.area == "lint" and one.example is not None]
    rows = [
        (link(one.id, f"../rules/lint/{one.id}.md"), prose(one.title))
        for one in lint
        if name in lint_lines(one.id) and len(lint_lines(one.id)) < len(lines())
    ]
    return table(("rule", "situation"), rows) if rows else "None."
