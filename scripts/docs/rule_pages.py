"""Pages of the site about rules: one for each rule, check, known failure, invariant and known defect, and indexes.

Everything comes from ``lab.operations.rules``, which ``--explain RULE`` prints as well.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from lab.errors import SpecError
from lab.findings import RuleDescription
from lab.kai import facts, lines
from lab.lint import lint, parse
from lab.operations.rules import rules
from scripts.docs.markdown import code, inline, link, page, plain, prose, table
from tests.support.lint_examples import BROKEN

TITLES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "lint": ("Rules of kailab lint", "mistakes in manifests, found before they are applied"),
        "explain": ("Rules of kailab explain", "reasons why a pod or workload does not run, or was evicted"),
        "doctor": ("Checks of kailab doctor", "requirements of this machine, and stages of the path of each GPU"),
        "symptom": ("Known failures of the GPU path", "messages of programs, what they mean and what to do"),
        "invariant": ("Invariants of kailab verify", "what always holds of GPUs, queues, gangs and tenants"),
        "defect": ("Known defects of KAI", "bugs of KAI releases that tests and labs can meet"),
    }
)
"""Title and subject of each area's index."""

COMMANDS = MappingProxyType(
    {"lint": "lint", "explain": "explain", "doctor": "doctor", "symptom": "doctor", "invariant": "verify"}
)
INDEX = "reference/rules/index.md"


def rule_pages() -> dict[str, str]:
    """The pages by path."""
    pages = {f"{one.page}.md": _page(one) for one in rules()}
    pages |= {f"reference/rules/{area}/index.md": _index(area) for area in TITLES}
    overview = [(link(title, f"{area}/index.md"), str(len(_of(area))), what) for area, (title, what) in TITLES.items()]
    return {**pages, INDEX: page("Rules, checks, invariants and known defects", _ABOUT, table(_OVERVIEW, overview))}


_OVERVIEW = ("pages", "number", "about")
_ABOUT = (
    "Each page has the text that people meet as its title, with the meaning, the next action, an example and the"
    " source. `kailab lint --explain RULE` prints the same offline, for the rules of every area."
)


@functools.cache
def _of(area: str) -> tuple[RuleDescription, ...]:
    return tuple(one for one in rules() if one.area == area)


def _index(area: str) -> str:
    title, what = TITLES[area]
    rows = [(link(one.id, f"{one.id}.md"), prose(one.title)) for one in _of(area)]
    return page(title, f"{what[0].upper()}{what[1:]}. [All areas](../index.md)", table(("id", "situation"), rows))


def _page(one: RuleDescription) -> str:
    return page(one.error_text, *_blocks(one))


def _blocks(one: RuleDescription) -> Iterator[str]:
    title, _ = TITLES[one.area]
    yield f"{inline(one.id)} · [{title}](index.md)"
    if one.title != one.error_text and not one.meaning.startswith(one.title):
        yield f"**{prose(one.title).rstrip('.')}.**"
    if one.meaning and one.meaning != one.title:
        yield prose(one.meaning)
    if one.next:
        yield f"## What to do\n\n{prose(one.next)}"
    yield from _example(one)
    if versions := _versions(one):
        yield f"## KAI versions\n\n{versions}"
    rows = [(plain(name), _fact(name, text)) for name, text in one.facts.items()]
    if one.source:
        rows.append(("source", prose(one.source)))
    rows.append(("offline", inline(f"kailab {COMMANDS.get(one.area, 'lint')} --explain {one.id}")))
    yield "## Facts\n\n" + "\n".join(f"- **{name}**: {text}" for name, text in rows)


def _fact(name: str, text: str) -> str:
    if name == "known defects that break it":
        return ", ".join(link(defect, f"../defect/{defect}.md") for defect in text.split(", "))
    if name == "invariants that it breaks":
        return ", ".join(link(rule, f"../invariant/{rule}.md") for rule in text.split(", "))
    return inline(text) if name == "matches" else prose(text)


def _example(one: RuleDescription) -> Iterator[str]:
    seen = one.example
    if seen is None:
        yield "## Example\n\nNo example of a real machine or cluster is recorded."
        return
    blocks = ["## Example", f"Origin: {prose(seen.origin)}."]
    if seen.input:
        blocks.append(code(seen.input, "yaml" if one.area == "lint" else "text"))
    if seen.what not in (one.meaning, one.error_text):
        blocks.append(f"{'Seen' if one.area == 'defect' else 'What kailab reports'}: {prose(seen.what)}")
    if seen.evidence:
        blocks.append("Evidence:\n\n" + code("\n".join(seen.evidence)))
    if seen.next and seen.next != one.next:
        blocks.append(f"Next: {prose(seen.next)}")
    yield "\n\n".join(blocks)


def _versions(one: RuleDescription) -> str:
    """The KAI versions that have the situation, as far as data or the rule itself show them."""
    if one.area == "lint" and one.id in BROKEN:
        found = lint_lines(one.id)
        if len(found) == len(lines()):
            return "The rule finds its example on every version line that kailab knows."
        named = ", ".join(
            link(f"{lines()[name].first} to {lines()[name].last}", f"../../kai/{name}.md") for name in found
        )
        return f"The rule finds its example on these version lines: {named}."
    if one.area == "explain" and (releases := facts.having("messages", one.id)):
        return f"The message is in the sources of KAI {facts.as_ranges(releases, facts.releases())}."
    if one.area == "defect":
        having = [name for name, line in lines().items() if any(defect.id == one.id for defect in line.defects)]
        named = ", ".join(link(lines()[name].version, f"../../kai/{name}.md") for name in having)
        return f"Releases {one.facts['releases']}" + (
            f"; of the versions that kailab was run or read with: {named}" if named else ""
        )
    return ""


@functools.cache
def lint_lines(rule: str) -> tuple[str, ...]:
    """The version lines on which the rule finds its own example."""
    written, setting = BROKEN[rule]
    found = []
    for name, line in lines().items():
        try:
            findings = lint(parse(written, "manifest.yaml"), replace(setting, line=line))
        except SpecError:
            continue
        if any(one.rule == rule for one in findings):
            found.append(name)
    return tuple(found)
