"""Write ``lab/findings/examples.json``: a finding of each rule on a captured cluster, a recorded message or a manifest.

Run it after a change of rules or captures: ``python -m scripts.docs.examples``. A unit test compares.
"""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.explain import LabSnapshot, TenantSnapshot, explain_evictions, explained
from lab.explain.message_rules import patterns
from lab.findings import Finding
from lab.findings.description import EXAMPLES
from lab.gpu.diagnosis.symptoms import in_text
from lab.lint import RULES, lint, parse
from lab.snapshot.cluster_snapshot import ClusterSnapshot
from lab.text import one_line
from tests.support.lint_examples import BROKEN

DATA = Path(__file__).parents[2] / "tests" / "data"
EVIDENCE = 8
"""Lines of evidence that an example keeps."""

_UNSTABLE = re.compile(r"(?<=containerd://)[0-9a-f]{64}|(?<=sandbox \")[0-9a-f]{64}")


def examples() -> dict[str, dict[str, Any]]:
    """Return the examples by area and id."""
    found: dict[str, dict[str, Any]] = {}
    for key, one in (*_lint(), *_scenarios(), *_evictions(), *_messages(), *_symptoms(), *_recorded()):
        found.setdefault(key, one)
    return found


def text() -> str:
    """The file's content."""
    return one_a_line(examples())


def one_a_line(rows: Mapping[str, Any]) -> str:
    """JSON of the rows, sorted and one a line, so that differences can be read."""
    lines = (f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in sorted(rows.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _of(finding: Finding, origin: str, given: str = "") -> dict[str, Any]:
    lines = [_UNSTABLE.sub("…", one_line(line)) for line in finding.evidence[:EVIDENCE]]
    example = {"origin": origin, "what": finding.what, "next": finding.next, "input": given, "evidence": lines}
    return {name: value for name, value in example.items() if value}


def _lint() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in RULES:
        if name not in BROKEN:
            continue
        written, setting = BROKEN[name]
        shown = written if name in ("duplicate-key", "indentation-lost") else _block_style(written)
        finding = next(one for one in lint(parse(shown, "manifest.yaml"), setting) if one.rule == name)
        where = f"{finding.severity} in line {finding.line}, checked for KAI {setting.line.version}"
        yield f"lint/{name}", _of(finding, where, shown)


def _block_style(text: str) -> str:
    """The documents of a text as people write YAML."""
    return str(yaml.safe_dump_all(list(yaml.safe_load_all(text.removesuffix("---\n"))), sort_keys=False, width=100))


def _scenarios() -> Iterator[tuple[str, dict[str, Any]]]:
    """Findings of captured clusters: those that come first in an explanation, then the others."""
    later: list[tuple[str, dict[str, Any]]] = []
    for path in sorted((DATA / "scenarios").glob("*.json.gz")):
        data = json.loads(gzip.decompress(path.read_bytes()))
        subject, snapshot = data["subject"], _snapshot(data)
        found = explained(snapshot, subject["name"], subject["namespace"], subject["tenant"]).findings
        for number, finding in enumerate(found):
            row = (f"explain/{finding.rule}", _of(finding, _origin(data)))
            if number:
                later.append(row)
            else:
                yield row
    yield from later


def _snapshot(data: Mapping[str, Any]) -> LabSnapshot:
    tenants = (TenantSnapshot(t["name"], ClusterSnapshot.from_json(t["world"]), t["own"]) for t in data["tenants"])
    return LabSnapshot(ClusterSnapshot.from_json(data["host"]), tuple(tenants))


def _origin(data: Mapping[str, Any]) -> str:
    facts = data["facts"]
    return f"a cluster with KAI {facts['kai_version']} and Kubernetes {facts['kubernetes']} (scenario {data['name']})"


def _recorded() -> Iterator[tuple[str, dict[str, Any]]]:
    """Broken invariants as ``kailab verify`` reported them, and defects of KAI (scripts/workbench.py)."""
    for area, file in (("invariant", "invariants.json"), ("defect", "defects.json")):
        for name, seen in json.loads((DATA / file).read_text(encoding="utf-8")).items():
            origin = (
                f"a cluster with KAI {seen['kai_version']} and Kubernetes {seen['kubernetes']}."
                f" {seen['how'].rstrip('.')}"
            )
            finding = Finding(seen["what"], evidence=tuple(seen["evidence"]))
            yield f"{area}/{name}", _of(finding, origin, seen.get("input", ""))


def _evictions() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((DATA / "evictions").glob("*.json.gz")):
        for finding in explain_evictions(ClusterSnapshot.load(path)).findings:
            if finding.rule == f"eviction.{path.name.partition('.')[0]}":
                yield f"explain/{finding.rule}", _of(finding, "a cluster with KAI 0.16.8 and 8 simulated GPUs")


def _messages() -> Iterator[tuple[str, dict[str, Any]]]:
    """Messages of components that no capture has, as their sources write them."""
    recorded: Mapping[str, str] = tomllib.loads((DATA / "explain_messages.toml").read_text())
    names = {"title": "Pod team/p", "pod": "p", "namespace": "team", "node": "worker-1", "queue": "test"}
    names |= {"scheduler": "kai-scheduler", "kubectl": "kubectl"}
    for row in patterns().values():
        reason, _, words = recorded[row.id].rpartition("|")
        sender = f"{reason}: " if reason else ""
        match = next((hit for line in (words, sender + words) if (hit := row.search(line))), None)
        if match is not None:
            yield (
                f"explain/{row.id}",
                _of(row.finding(match, (), names), "a message, recorded or as its source writes it", sender + words),
            )


def _symptoms() -> Iterator[tuple[str, dict[str, Any]]]:
    recorded: Mapping[str, list[str]] = tomllib.loads((DATA / "symptoms_messages.toml").read_text())
    for name, lines in recorded.items():
        for line in lines:
            found = [one for one in in_text(line, "log") if one.rule == name]
            if found:
                yield (
                    f"symptom/{name}",
                    _of(found[0], "a line of the program, recorded here or in the issue that the source names", line)
                    | {"evidence": []},
                )
                break


if __name__ == "__main__":
    EXAMPLES.write_text(text(), encoding="utf-8")
    print(f"wrote {EXAMPLES.name}: {len(examples())} examples")
