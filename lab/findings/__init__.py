"""One kernel for everything that judges: a finding, a rule, a registry, and rules that are patterns in TOML files.

Host checks, lint, explain, GPU diagnosis and invariants have rules and inputs of their own and all yield findings.
"""

from lab.findings.finding import Certainty, Finding, Severity
from lab.findings.pattern_rules import PatternRule, load
from lab.findings.rule import Registry, Rule

__all__ = ["Certainty", "Finding", "PatternRule", "Registry", "Rule", "Severity", "load"]
