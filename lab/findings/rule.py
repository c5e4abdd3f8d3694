"""Rules, and the registry of the rules of one area."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, ParamSpec, Protocol, TypeVar

from lab.errors import LabError
from lab.findings.finding import Finding

P = ParamSpec("P")


@dataclass(frozen=True)
class Rule(Generic[P]):
    """One check of an input, such as a manifest or a machine."""

    id: str
    """Stable: tests and reports refer to it."""
    title: str
    """The situation in a few words, for the table of rules."""
    find: Callable[P, Iterable[Finding] | Finding | None]
    """A pure function: the same input gives the same findings."""
    source: str = ""
    """An upstream file, an issue, or a measurement."""
    general: bool = False
    """Only repeats the message of a component; omitted if another rule gives a reason."""
    advisory: bool = False
    """Its errors are warnings."""
    read_only: str = ""
    """Why no capture of a real cluster shows it: the rule rests on reading sources alone. Empty: captured."""

    def apply(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Finding, ...]:
        """Return its findings with its id, title and source."""
        found = self.find(*args, **kwargs) or ()
        return tuple(
            replace(
                finding,
                rule=self.id,
                title=self.title,
                source=self.source,
                read_only=self.read_only,
                severity="warning" if self.advisory and finding.severity == "error" else finding.severity,
            )
            for finding in ((found,) if isinstance(found, Finding) else found)
        )

    JSON: ClassVar = "id title source general read_only"


def title_of(find: Callable[..., object]) -> str:
    """Return the title of a rule: its function's docstring up to the first period, colon or semicolon."""
    return re.split(r"[.:;](?:\s|$)", find.__doc__ or "", maxsplit=1)[0]


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_Identified)


class Registry(dict[str, R]):
    """The rules of one area by id, in the order in which they were added. ``area`` names them in errors."""

    def __init__(self, area: str, rules: Iterable[R] = ()) -> None:
        super().__init__()
        self.area = area
        for rule in rules:
            self.add(rule)

    def add(self, rule: R) -> None:
        """Add a rule. Raises LabError if its id exists."""
        if rule.id in self:
            raise LabError(f"{self.area}: two rules have the id {rule.id}")
        self[rule.id] = rule
