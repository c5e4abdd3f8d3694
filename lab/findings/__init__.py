"""The kernel of all rules: findings, rules, registries, and rules that match text patterns from TOML files.

Host checks, lint, explain, GPU diagnosis and invariants have their own rules and inputs and all return findings.
"""

from lab.findings.description import Example, RuleDescription, example
from lab.findings.finding import Certainty, Finding, Severity
from lab.findings.pattern_rules import PatternRule, load
from lab.findings.rule import Registry, Rule, title_of

__all__ = [
    "Certainty",
    "Example",
    "Finding",
    "PatternRule",
    "Registry",
    "Rule",
    "RuleDescription",
    "Severity",
    "example",
    "load",
    "title_of",
]
