"""``kailab explain``: why a pod or a workload does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.completion import complete_tenant
from lab.cli.explain_rule import ExplainRule, RuleList, explain_rule
from lab.cli.lazy import command_app
from lab.cli.options import (
    AsJson,
    Context,
    Kubeconfig,
    Name,
    Saved,
    cluster_of,
    exclusive,
    print_json,
    warn_about_kai,
    write_text,
)
from lab.errors import SpecError
from lab.explain import LabSnapshot, all_rules, explain_evictions, explained, overview_of
from lab.explain.owners import Ref
from lab.explain.queue_explanation import explain_queues
from lab.explain.subject import Subject
from lab.explain.workload_explanation import explain_workload
from lab.operations.explain import load, read, read_cluster
from lab.report.queue_page import queue_page
from lab.session.lab import Lab
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.snapshot.kai_installation import installation
from lab.ui.explain import render_evictions, render_explained, render_overview, render_workload
from lab.ui.findings import render_rule_list
from lab.ui.queues import render_queues

app = command_app()

_EVICTIONS = ("eviction", "evictions")
_QUEUES = ("queue", "queues")

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAMESPACE/]POD | KIND [NAMESPACE/]NAME | eviction POD | queue [NAME]",
        help="A pod or a workload; 'eviction' before it for its evictions, 'evictions' for the recent ones; queues.",
    ),
]
Namespace = Annotated[str | None, typer.Option("-n", "--namespace", help="Its namespace. Default: default.")]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Its tenant. Default: the lab's own cluster.", autocompletion=complete_tenant),
]
All = Annotated[bool, typer.Option("--all", help="An overview of the whole lab and all problems in it.")]
Rules = Annotated[bool, typer.Option("--rules", help="List all rules; needs no cluster.")]
Save = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Write the cluster's snapshot, without Secrets.")
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="With queue: also write an HTML page.")]


@app.command(
    epilog="Examples: kailab explain team/pod · kailab explain deployment team/web"
    " · kailab explain pytorchjob/train -n team"
    " · kailab explain pod -n ns --tenant my-vcluster · kailab explain eviction team/pod"
    " · kailab explain queue research --html queues.html · kailab explain --all"
)
def explain(
    words: Words = None,
    namespace: Namespace = None,
    tenant: Tenant = None,
    all_: All = False,
    rules: Rules = False,
    rule: ExplainRule = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    snapshot: Saved = None,
    save: Save = None,
    html: Html = None,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a pod or a workload does not run, the root cause first. Exit code 1 if no reason is found."""
    if rule is not None:
        explain_rule(rule, as_json)
        return
    if rules:
        _rules(as_json)
        return
    asked = words or []
    if all_ == bool(asked):
        raise SpecError(
            "a pod and --all are mutually exclusive" if asked else "no pod named",
            fix="kailab explain NAMESPACE/POD, kailab explain KIND NAME, or kailab explain --all",
        )
    if html is not None and asked[:1] not in ([word] for word in _QUEUES):
        raise SpecError("--html: only 'kailab explain queue' writes a page", fix="omit --html")
    clusters = _clusters(name, kubeconfig, context, snapshot, tenant or "", asked)
    if (kai := installation(clusters.snapshot(tenant or ""))) is not None:
        warn_about_kai(kai.version)
    if save is not None:
        clusters.snapshot(tenant or "").save(save)
    if all_:
        overview = overview_of(clusters)
        print_json(overview) if as_json else render_overview(overview)
        return
    if asked[0] in _QUEUES:
        _queues(clusters.snapshot(tenant or ""), asked[1:], html, as_json)
        settled = True
    elif asked[0] in _EVICTIONS:
        settled = _evictions(clusters, asked[1:], namespace, tenant or "", as_json)
    elif (subject := Subject.of(clusters.snapshot(tenant or ""), asked, namespace)).kind:
        workload = explain_workload(clusters, subject.kind, subject.name, subject.namespace, tenant or "")
        print_json(workload) if as_json else render_workload(workload)
        settled = workload.settled
    else:
        found = explained(clusters, subject.name, subject.namespace, tenant or "")
        print_json(found) if as_json else render_explained(found)
        settled = found.settled
    if not settled:
        raise typer.Exit(1)


def _clusters(
    name: str | None, kubeconfig: Path | None, context: str | None, snapshot: Path | None, tenant: str, words: list[str]
) -> LabSnapshot:
    """Read what the options name; the first of several words may name a kind to read as well."""
    records = bool(words) and words[0] in (*_EVICTIONS, *_QUEUES)
    kind, *more = " ".join(words[1:] if records else words).replace("/", " ").split() or [""]
    if snapshot is not None:
        others = {"--tenant": tenant, "--name": name, "--kubeconfig": kubeconfig, "--context": context}
        exclusive(others, {"--snapshot": snapshot})
        return load(snapshot)
    cluster = cluster_of(name, kubeconfig, context, tenant)
    kind = kind if more else ""
    return read_cluster(cluster, kind, records) if cluster else read(Lab.attach(name), tenant, kind, records)


def _queues(snapshot: ClusterSnapshot, words: list[str], html: Path | None, as_json: bool) -> None:
    if len(words) > 1:
        fix = "kailab explain queue NAME, or kailab explain queue"
        raise SpecError(f"{' '.join(words)}: more than one queue", fix=fix)
    tree = explain_queues(snapshot, *words)
    if html is not None:
        write_text(html, queue_page(tree, f"the cluster at {snapshot.at:%Y-%m-%d %H:%M:%S} UTC"), "--html")
    print_json(tree) if as_json else render_queues(tree)


def _evictions(clusters: LabSnapshot, words: list[str], namespace: str | None, tenant: str, as_json: bool) -> bool:
    """Print the evictions of a subject, or the recent ones; return whether anything is known."""
    subject = Ref(*Subject.of(clusters.snapshot(tenant), words, namespace)) if words else None
    found = explain_evictions(clusters.scheduled(tenant), subject, tenant=clusters.synced_from(tenant))
    print_json(found) if as_json else render_evictions(found)
    return found.settled


def _rules(as_json: bool) -> None:
    rows = all_rules()
    if as_json:
        print_json(RuleList(rules=rows))
        return
    seen = sum(not rule.read_only for rule in rows)
    note = f"in the order of a pod's life; {seen} captured from real clusters, the others read in sources only"
    render_rule_list(f"{len(rows)} rules", rows, "kailab explain", note)
