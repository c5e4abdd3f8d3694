"""A rule, and the rules of one area."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from lab.errors import LabError
from lab.findings.finding import Finding

P = ParamSpec("P")


@dataclass(frozen=True)
class Rule(Generic[P]):
    """One question to an input, such as a manifest or a machine."""

    id: str
    """Stable, as tests and reports name it."""
    title: str
    """The situation in a few words, for the table of rules."""
    find: Callable[P, Iterable[Finding] | Finding | None]
    """Pure: the same input gives the same findings."""
    source: str = ""
    """Where the fact comes from: an upstream file, an issue, or what was seen."""
    general: bool = False
    """Only repeats the message of a component: left out when another rule gives a reason."""
    advisory: bool = False
    """Its errors are warnings."""

    def apply(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Finding, ...]:
        """What it finds, with its id, title and source."""
        found = self.find(*args, **kwargs) or ()
        return tuple(
            replace(
                one,
                rule=self.id,
                title=self.title,
                source=self.source,
                severity="warning" if self.advisory and one.severity == "error" else one.severity,
            )
            for one in ((found,) if isinstance(found, Finding) else found)
        )

    def as_json(self) -> dict[str, Any]:
        """The row of this rule in the table of rules."""
        return {"id": self.id, "title": self.title, "source": self.source, "general": self.general}


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_Identified)


class Registry(Mapping[str, R]):
    """The rules of one area by id, in the order in which they were added.

    Args:
        area: its name, for errors.
        rules: the first rules.
    """

    def __init__(self, area: str, rules: Iterable[R] = ()) -> None:
        self.area = area
        self._rules: dict[str, R] = {}
        for rule in rules:
            self.add(rule)

    def add(self, rule: R) -> None:
        """Add a rule. Raises LabError when the id is taken."""
        if rule.id in self._rules:
            raise LabError(f"{self.area}: two rules have the id {rule.id}")
        self._rules[rule.id] = rule

    def __getitem__(self, rule_id: str) -> R:
        return self._rules[rule_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)
