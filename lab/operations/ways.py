"""The way of each item of a lab to this machine, and its cost, before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.findings import Finding, Severity
from lab.host.check import HERE
from lab.paths import state_root
from lab.session.run_history import step_seconds
from lab.supply import Choice, Supply
from lab.text import count, mebibytes, whole_seconds

RATE = 100
"""Mbit/s of the connection that the stated time of downloads assumes."""


@dataclass(frozen=True)
class Ways:
    """The sources of a lab's items; ``builds`` has the seconds of each build by its recipe, 0 if not known."""

    here: tuple[Choice, ...]
    downloads: tuple[Choice, ...]
    builds: Mapping[str, float]
    missing: tuple[Choice, ...]

    @classmethod
    def of(cls, choices: Iterable[Choice], supply: Supply) -> Ways:
        """Sort choices by source. The seconds of a build are those of earlier runs here, or else the catalogue's."""
        by_source: dict[str, list[Choice]] = {}
        for choice in choices:
            by_source.setdefault(choice.source, []).append(choice)
        earlier = step_seconds(state_root() / "runs")
        recipes = dict.fromkeys(supply.recipe_of(choice.item) for choice in by_source.get("build", ()))
        known = {name: earlier.get(f"supply:{name}", supply.catalogue.seconds.get(name, 0)) for name in recipes}
        here = (*by_source.get("present", ()), *by_source.get("bundle", ()))
        return cls(here, tuple(by_source.get("registry", ())), known, tuple(by_source.get("none", ())))

    @property
    def download(self) -> str:
        """Size of all downloads and their time at ``RATE``."""
        total = sum(choice.size for choice in self.downloads)
        unknown = sum(not choice.size for choice in self.downloads)
        sized = f"{mebibytes(total)}, about {whole_seconds(total * 8 / RATE / 1e6)} at {RATE} Mbit/s" if total else ""
        return ", ".join(filter(None, [sized, f"{count(unknown, 'size')} not known" if unknown else ""]))

    @property
    def build(self) -> str:
        """Each build with its duration."""
        each = ((name, f" about {whole_seconds(took)}" if took else "") for name, took in self.builds.items())
        return ", ".join(f"{name}{about}" for name, about in each)

    @property
    def may_build(self) -> bool:
        """Whether something is built, or would be if the machine had the tools."""
        return bool(self.builds) or any(why.startswith("build:") for one in self.missing for why in one.why)

    def findings(self) -> tuple[Finding, ...]:
        """The doctor's findings: one for each way, one for each missing item."""
        found = []
        if self.here:
            found.append(supply_finding("ok", f"{count(len(self.here), 'item')} on this machine"))
        if self.downloads:
            found.append(supply_finding("ok", f"{count(len(self.downloads), 'download')}: {self.download}"))
        if self.builds:
            found.append(supply_finding("ok", f"{count(len(self.builds), 'build')} here: {self.build}"))
        for one in self.missing:
            what = f"{one.item} is not available: {'; '.join(one.why)}"
            found.append(supply_finding("error", what, one.fix))
        return tuple(found)


def supply_finding(severity: Severity, what: str, fix: str = "") -> Finding:
    """A finding of the doctor about where items come from."""
    return Finding(what, fix, rule="supply", title="supply", severity=severity, subject=HERE)
