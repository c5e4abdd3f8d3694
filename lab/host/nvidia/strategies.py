"""GPU strategies (strategies.toml), and the choice of one for a machine."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from lab import text
from lab.errors import HostNotReady
from lab.host.docker_config import NVIDIA
from lab.host.nvidia.discovery import NvidiaFacts
from lab.host.nvidia.requirements import REQUIREMENTS

AUTO = "auto"

RUNTIME_FIX, CDI_FIX = "nvidia-runtime", "nvidia-cdi"
"""Ids of the fixes for the settings ``runtime`` and ``cdi-spec``."""


@dataclass(frozen=True)
class Strategy:
    """One row of strategies.toml."""

    name: str
    title: str
    why: str
    checks: tuple[str, ...]
    settings: tuple[str, ...]
    request: str = ""

    def refusal(self, facts: NvidiaFacts) -> str:
        """Why the strategy does not work on this machine, or an empty text."""
        return next((reason for name in self.checks if (reason := REQUIREMENTS[name](facts))), "")

    def changes(self, facts: NvidiaFacts) -> tuple[str, ...]:
        """Ids of the fixes that the strategy still needs on this machine."""
        needed = []
        if "runtime" in self.settings and not runtime_ready(facts):
            needed.append(RUNTIME_FIX)
        if "cdi-spec" in self.settings and facts.cdi.lacks(tuple(gpu.uuid for gpu in facts.gpus)):
            needed.append(CDI_FIX)
        return tuple(needed)


@dataclass(frozen=True)
class StrategyChoice:
    """The chosen strategy and the reason.

    Attributes:
        strategy: its name; empty if none works.
        why: the reason for this choice, or why none works.
        refused: reasons by strategy that was not chosen.
        changes: ids of the fixes that the strategy needs.
    """

    strategy: str
    why: str
    refused: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()


@functools.cache
def strategies() -> Mapping[str, Strategy]:
    """All strategies by name, in the order in which ``auto`` tries them."""
    rows = tomllib.loads((Path(__file__).parent / "strategies.toml").read_text())
    lists = ("checks", "settings")
    return MappingProxyType(
        {name: Strategy(name, **{**row, **{key: tuple(row[key]) for key in lists}}) for name, row in rows.items()}
    )


def choose_strategy(facts: NvidiaFacts, wanted: str = AUTO) -> StrategyChoice:
    """Choose the strategy that the lab file's gpu.strategy names, or for ``auto`` the first one that works."""
    known = strategies()
    refused: dict[str, str] = {}
    for name in known if wanted == AUTO else (wanted,):
        if reason := known[name].refusal(facts):
            refused[name] = reason
            continue
        why = "set in gpu.strategy"
        if wanted == AUTO:
            why = known[name].why + "".join(f"; not {other}: {reason}" for other, reason in refused.items())
        return StrategyChoice(name, why, refused, known[name].changes(facts))
    reasons = list(dict.fromkeys(refused.values()))
    why = reasons[0] if len(reasons) == 1 else "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return StrategyChoice("", why, refused)


def required_strategy(facts: NvidiaFacts, wanted: str = AUTO) -> StrategyChoice:
    """Choose a strategy as ``choose_strategy`` does. Raises HostNotReady if none, or not the wanted one, works."""
    choice = choose_strategy(facts, wanted)
    if choice.strategy:
        return choice
    lines = [f"{name}: {reason}" for name, reason in choice.refused.items()]
    setting = "gpu.mode 'nvidia'" if wanted == AUTO else f"gpu.strategy '{wanted}'"
    raise HostNotReady(
        f"{setting} does not work on this machine: {choice.why}",
        evidence=lines if len(set(choice.refused.values())) > 1 else (),
        fix="correct the named cause, or set gpu.mode to 'simulated'"
        + ("" if wanted == AUTO else ", or gpu.strategy to 'auto'"),
    )


def choose_mode(facts: NvidiaFacts, wanted: str = AUTO) -> tuple[str, str]:
    """Resolve ``gpu.mode: auto`` to ``nvidia`` if a strategy works, otherwise to ``simulated``.

    Return the mode and a sentence that explains it, which is empty on a machine without GPUs.
    """
    if not facts.nvml.gpus:
        return "simulated", ""
    count = text.count(len(facts.nvml.gpus), "NVIDIA GPU")
    choice = choose_strategy(facts, wanted)
    if not choice.strategy:
        return "simulated", f"this machine has {count}, but GPUs are simulated: {choice.why}"
    return "nvidia", f"this machine has {count}, passed to nodes by {choice.strategy}: {choice.why}"


def runtime_ready(facts: NvidiaFacts) -> bool:
    """Whether Docker's containers can request GPUs by mounts, now and after its next start."""
    running = facts.engine is None or facts.engine.default_runtime == NVIDIA
    return running and facts.default_runtime == NVIDIA and facts.toolkit.mounts
