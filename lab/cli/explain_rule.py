"""``--explain RULE`` of lint, explain, doctor and verify."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import typer

from lab.cli.options import print_json
from lab.findings import Rule
from lab.findings.description import RuleDescription
from lab.findings.pattern_rules import PatternRule
from lab.ui.findings import render_rules


class RuleList(TypedDict):
    """All rules of a command."""

    rules: Sequence[Rule[Any] | PatternRule]


class DescribedRules(TypedDict):
    """The rules with an id, one for each area that has it."""

    rules: Sequence[RuleDescription]


def complete_rule(incomplete: str) -> list[str]:
    """Ids of rules for the shell."""
    return sorted({one.id for one in _registry().rules() if one.id.startswith(incomplete)})


ExplainRule = Annotated[
    str | None,
    typer.Option(
        "--explain",
        metavar="RULE",
        help="Explain a rule of lint, explain, doctor or verify, or a known defect; needs no lab.",
        autocompletion=complete_rule,
    ),
]


def explain_rule(rule: str, as_json: bool) -> None:
    """Print the description of a rule. Raises SpecError for an unknown one."""
    found = _registry().described(rule)
    print_json(DescribedRules(rules=found)) if as_json else render_rules(found)


def _registry() -> Any:
    """The registry of all rules, imported when it is needed: 0.25 s of processor time, measured on 2 cores."""
    return importlib.import_module("lab.operations.rules")
