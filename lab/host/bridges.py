"""What Docker leaves in the kernel's network when it stops: bridges, chains, a closed FORWARD policy."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from lab.tools.process import Runner

_BRIDGE = re.compile(r"(?:docker0|br-[0-9a-f]{12})")
_TABLES = ("filter", "nat")


@dataclass(frozen=True)
class BridgeSettings:
    """The network before the engine first ran: FORWARD's policy, and whether Docker's chains were there."""

    forward: str = ""
    chains: bool = False


def look(hands: Runner) -> BridgeSettings:
    """Read the tables; a machine without iptables has nothing to clean."""
    if hands.which("iptables") is None:
        return BridgeSettings()
    rules = hands.run(["iptables", "-t", "filter", "-S"], check=False).out.splitlines()
    policy = next((line.split()[2] for line in rules if line.startswith("-P FORWARD ")), "")
    return BridgeSettings(policy, any(line.startswith("-N DOCKER") for line in rules))


def clean(hands: Runner, forward: str) -> list[str]:
    """Take Docker's rules, chains and bridges away and give FORWARD its old policy; other rules stay."""
    said = []
    removed = 0
    for table in _TABLES if hands.which("iptables") is not None else ():
        rules = hands.run(["iptables", "-t", table, "-S"], check=False).out.splitlines()
        chains = [line.split()[1] for line in rules if line.startswith("-N DOCKER")]
        for rule in (line for line in rules if line.startswith("-A ") and not line.startswith("-A DOCKER")):
            words = shlex.split(rule)
            if any(word in chains or _BRIDGE.fullmatch(word) for word in words):
                hands.run(["iptables", "-t", table, "-D", *words[1:]], check=False)
                removed += 1
        for verb in ("-F", "-X"):
            for chain in chains:
                hands.run(["iptables", "-t", table, verb, chain], check=False)
        removed += len(chains)
    if removed:
        said.append(f"{removed} rules and chains of Docker removed")
    if forward and hands.which("iptables") is not None:
        hands.run(["iptables", "-P", "FORWARD", forward], check=False)
    if hands.which("ip") is None:
        return said
    links = hands.run(["ip", "-o", "link", "show", "type", "bridge"], check=False).out
    for name in re.findall(r"^\d+: ([^:@]+)", links, re.MULTILINE):
        if _BRIDGE.fullmatch(name):
            hands.run(["ip", "link", "delete", name], check=False)
            said.append(f"bridge {name} removed")
    return said
