"""Findings as text: host checks, the GPU path, known failures, lint's findings; and the rules behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lab.findings import Finding, PatternRule, Rule, RuleDescription, Severity
from lab.text import count
from lab.ui.text_writer import STYLES, Cell, TextWriter

if TYPE_CHECKING:
    from rich.console import Console

    from lab.gpu.diagnosis.diagnose import Diagnosis

_SIGNS: Mapping[Severity, str] = MappingProxyType({"ok": "ok", "warning": "warn", "error": "fail", "skipped": "skip"})

AREAS = MappingProxyType(
    {
        "lint": "rule of kailab lint",
        "explain": "rule of kailab explain",
        "doctor": "check of kailab doctor",
        "symptom": "known failure of the GPU path",
        "invariant": "invariant of kailab verify",
        "defect": "known defect of KAI",
    }
)


def write_more(page: TextWriter, findings: Sequence[Finding]) -> None:
    """Name the command that explains the first rule."""
    if named := [one.rule for one in findings if one.rule]:
        page.line((f"more about a rule: kailab lint --explain {named[0]}", "dim"))


def sign(page: TextWriter, severity: Severity) -> Cell:
    """The sign of a severity in its style."""
    return (page.terminal.glyph("waiting"), "dim") if severity == "note" else page.sign(_SIGNS[severity])


def write_finding(page: TextWriter, finding: Finding, *, symptom: bool = False) -> None:
    """Write a finding with its rule, evidence and next action; for a symptom also its meaning and source."""
    sure = "" if finding.certainty.value == "certain" else f" ({finding.certainty.value})"
    side = f", {finding.side}" if finding.side else ""
    page.paragraph(sign(page, finding.severity), (finding.title if symptom else finding.what, "bold"))
    page.line((f"{finding.rule}{sure}{side}", "dim"), indent=2)
    if finding.read_only:
        page.line(
            (f"this rule rests on sources alone, no real cluster has shown it: {finding.read_only}", "dim"), indent=2
        )
    for line in finding.evidence:
        page.paragraph(("|", "dim"), line, indent=2)
    if symptom:
        page.paragraph(" ", finding.what, indent=2)
    page.next(finding.next, indent=2)
    if symptom:
        page.paragraph(" ", (finding.source, "dim"), indent=2)


def _write_checks(page: TextWriter, findings: Sequence[Finding]) -> None:
    width = max((len(finding.title) for finding in findings), default=0)
    for finding in findings:
        what = (finding.what, "dim" if finding.severity == "skipped" else "")
        page.columns([[sign(page, finding.severity), f"{finding.title:<{width}}", what]])
        if finding.severity in ("ok", "skipped"):
            continue
        glyph = page.terminal.glyph("next")
        for number, line in enumerate(finding.next.splitlines()):
            page.line((f"{' ' * len(glyph) if number else glyph} {line}", STYLES["next"]), indent=width + 5)


def render_machine(findings: Sequence[Finding], console: Console | None = None) -> None:
    """The host checks with their next actions, and the number of each severity."""
    page = TextWriter(console)
    _write_checks(page, findings)
    found: Counter[str] = Counter(finding.severity for finding in findings)
    words = {"ok": "passed", "warning": count(found["warning"], "warning"), "error": "failed", "skipped": "skipped"}
    page.blank()
    page.line(", ".join(w if s == "warning" else f"{found[s]} {w}" for s, w in words.items() if found[s]))
    if any(finding.fix_id for finding in findings):
        page.line((f"{page.terminal.glyph('next')} kailab up --yes applies the known fixes", STYLES["next"]))


def render_diagnosis(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Each stage of the GPU path of a lab."""
    page = TextWriter(console)
    page.heading(f"GPUs of lab {diagnosis.lab}")
    _write_checks(page, diagnosis.path)
    for missing in diagnosis.unread:
        page.marked("warn", f"not read: {missing}", indent=1)


def render_symptoms(found: Sequence[Finding], console: Console | None = None, *, nothing: str = "") -> None:
    """The known failures that were recognized, causes first, or the text ``nothing``."""
    page = TextWriter(console)
    if not found:
        if nothing:
            page.marked("skip", nothing)
        return
    page.heading("Known failures", "causes first")
    for number, finding in enumerate(found):
        if number:
            page.blank()
        write_finding(page, finding, symptom=True)
    write_more(page, found)


def render_by_file(findings: Sequence[Finding], version: str, console: Console | None = None) -> None:
    """Lint's findings by file and line, and the number of each severity."""
    page = TextWriter(console)
    levels = {"error": "bold red", "warning": "yellow", "note": "dim"}
    for file in dict.fromkeys(one.file for one in findings):
        page.heading(file)
        for one in (one for one in findings if one.file == file):
            level = (f"{one.severity:<8}", levels[one.severity])
            page.line((f"{one.line:>5}  ", "bold"), level, one.subject, (f"  [{one.rule}]", "dim"))
            page.line(one.what, indent=15)
            page.line(("next: ", "dim"), one.next, indent=15)
            page.line((f"source: {one.source}", "dim"), indent=15)
    found = Counter(one.severity for one in findings)
    counts = ", ".join(count(found[level], level) for level in ("error", "warning", "note") if found[level])
    write_more(page, findings)
    page.line((f"KAI {version}: {counts or 'no findings'}", "bold" if findings else "green"))


def render_versions(found: Mapping[str, Sequence[Finding]], console: Console | None = None) -> None:
    """Lint's findings on several KAI versions as a table: a row per finding, a column per version."""
    page = TextWriter(console)
    rows: dict[tuple[str, int, str, str], dict[str, str]] = {}
    for version, findings in found.items():
        for one in findings:
            rows.setdefault((one.file, one.line, one.subject, one.rule), {})[version] = one.severity
    levels = {"error": "bold red", "warning": "yellow", "note": "dim"}
    table: list[list[Cell]] = []
    for (file, line, subject, rule), cells in sorted(rows.items()):
        each: list[Cell] = [(cells.get(version, "-"), levels.get(cells.get(version, ""), "dim")) for version in found]
        table.append([(f"{file}:{line}", "bold"), subject, rule, *each])
    page.table(("where", "object", "rule", *(f"KAI {version}" for version in found)), table)
    page.line(f"{count(len(rows), 'finding')}; --kai with one version explains them", indent=1)


def render_rule_list(title: str, rules: Sequence[Rule[Any] | PatternRule], command: str, note: str = "") -> None:
    """The rules behind a command's findings, and how to read more about one."""
    page = TextWriter()
    page.prose((title, "bold"))
    if note:
        page.prose((note, "dim"), indent=1)
    page.columns([[(rule.id, "bold"), rule.title] for rule in rules])
    page.next(f"{command} --explain RULE explains one, with an example")


def render_rules(rules: Sequence[RuleDescription], console: Console | None = None) -> None:
    """Each rule with its meaning, cure, source and example."""
    page = TextWriter(console)
    for number, rule in enumerate(rules):
        if number:
            page.blank()
        page.line((rule.id, "bold"), (f"  {AREAS[rule.area]}", "dim"))
        for text in dict.fromkeys((rule.title, rule.meaning)):
            if text:
                page.paragraph("", text, indent=1)
        if rule.next:
            page.next(rule.next, indent=2)
        _example(page, rule)
        page.blank()
        page.columns(
            [[(name, "dim"), text] for name, text in (*rule.facts.items(), ("source", rule.source)) if text], 2
        )


def _example(page: TextWriter, rule: RuleDescription) -> None:
    if (seen := rule.example) is None:
        return
    page.heading("Example", seen.origin)
    for line in seen.input.splitlines():
        page.line(("| ", "dim"), line, indent=2)
    page.paragraph(page.terminal.glyph("fail"), seen.what, indent=2)
    for line in seen.evidence:
        page.paragraph(("|", "dim"), line, indent=4)
