"""The strategies as data, and which of them is to be used on a machine. Pure."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from lab import text
from lab.errors import HostNotReady
from lab.host.nvidia.discovery import NvidiaFacts
from lab.host.nvidia.engine_config import RUNTIME
from lab.host.nvidia.requirements import REQUIREMENTS

AUTO = "auto"

RUNTIME_FIX, CDI_FIX = "nvidia-runtime", "nvidia-cdi"
"""Ids of the fixes that make the settings ``runtime`` and ``cdi-spec``."""


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
        """Why it cannot be used on this machine; empty when it can."""
        return next((reason for name in self.checks if (reason := REQUIREMENTS[name](facts))), "")

    def changes(self, facts: NvidiaFacts) -> tuple[str, ...]:
        """Ids of the fixes that this machine still needs for it."""
        needed = []
        if "runtime" in self.settings and not runtime_ready(facts):
            needed.append(RUNTIME_FIX)
        if "cdi-spec" in self.settings and facts.cdi.lacks(tuple(gpu.uuid for gpu in facts.gpus)):
            needed.append(CDI_FIX)
        return tuple(needed)


@dataclass(frozen=True)
class StrategyChoice:
    """Which strategy, and why.

    Attributes:
        strategy: its name; empty when none can be used.
        why: the reason in words, also of there being none.
        refused: what was not taken, to the reason.
        changes: ids of the fixes that it needs.
    """

    strategy: str
    why: str
    refused: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()


@functools.cache
def strategies() -> Mapping[str, Strategy]:
    """All strategies by name, in the order in which ``auto`` tries them."""
    rows = tomllib.loads((Path(__file__).parent / "strategies.toml").read_text())
    return MappingProxyType(
        {
            name: Strategy(
                name, row["title"], row["why"], tuple(row["checks"]), tuple(row["settings"]), row.get("request", "")
            )
            for name, row in rows.items()
        }
    )


def choose_strategy(facts: NvidiaFacts, wanted: str = AUTO) -> StrategyChoice:
    """The strategy for this machine: the wanted one, with ``auto`` the first that works; never another one.

    Args:
        facts: from ``discover``.
        wanted: the lab file's gpu.strategy.
    """
    known = strategies()
    tried = tuple(known) if wanted == AUTO else (wanted,)
    refused: dict[str, str] = {}
    for name in tried:
        if reason := known[name].refusal(facts):
            refused[name] = reason
            continue
        why = "gpu.strategy names it" if wanted != AUTO else known[name].why
        if wanted == AUTO and refused:
            why += "".join(f"; not {other}: {said}" for other, said in refused.items())
        return StrategyChoice(name, why, refused, known[name].changes(facts))
    reasons = list(dict.fromkeys(refused.values()))
    said = reasons[0] if len(reasons) == 1 else "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    return StrategyChoice("", said, refused)


def required_strategy(facts: NvidiaFacts, wanted: str = AUTO) -> StrategyChoice:
    """As ``choose_strategy``.

    Raises:
        HostNotReady: no strategy, or not the wanted one, can be used on this machine.
    """
    choice = choose_strategy(facts, wanted)
    if choice.strategy:
        return choice
    lines = [f"{name}: {reason}" for name, reason in choice.refused.items()]
    asked = "gpu.mode 'nvidia'" if wanted == AUTO else f"gpu.strategy '{wanted}'"
    raise HostNotReady(
        f"{asked} cannot be had on this machine: {choice.why}",
        evidence=lines if len(set(choice.refused.values())) > 1 else (),
        fix="put right what is named, or set gpu.mode to 'simulated'"
        + ("" if wanted == AUTO else ", or gpu.strategy to 'auto'"),
    )


def choose_mode(facts: NvidiaFacts, wanted: str = AUTO) -> tuple[str, str]:
    """What ``gpu.mode: auto`` becomes here, and why: real GPUs only where they can be made to work.

    Returns:
        ``nvidia`` or ``simulated``, and a sentence to be told; empty where no GPU was to be expected.
    """
    if not facts.nvml.gpus:
        return "simulated", ""
    count = text.count(len(facts.nvml.gpus), "NVIDIA GPU")
    choice = choose_strategy(facts, wanted)
    if not choice.strategy:
        return "simulated", f"this machine has {count}, but GPUs are simulated: {choice.why}"
    return "nvidia", f"this machine has {count}, which the nodes get by {choice.strategy}: {choice.why}"


def runtime_ready(facts: NvidiaFacts) -> bool:
    """Whether Docker's containers can ask for GPUs by mounts, now and after its next start."""
    running = facts.engine is None or facts.engine.default_runtime == RUNTIME
    return running and facts.default_runtime == RUNTIME and facts.toolkit.mounts
