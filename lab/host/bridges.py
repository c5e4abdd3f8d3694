"""Network state that Docker leaves in the kernel when it stops: bridges, iptables chains, the policy of FORWARD."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from lab.tools.process import Runner

_BRIDGE = re.compile(r"(?:docker0|br-[0-9a-f]{12})")


@dataclass(frozen=True)
class BridgeSettings:
    """Policy of FORWARD, and whether Docker's chains exist."""

    forward: str = ""
    chains: bool = False


def read(root: Runner) -> BridgeSettings:
    """Read the iptables rules; empty without iptables."""
    if root.which("iptables") is None:
        return BridgeSettings()
    rules = root.run(["iptables", "-t", "filter", "-S"], check=False).out.splitlines()
    policy = next((line.split()[2] for line in rules if line.startswith("-P FORWARD ")), "")
    return BridgeSettings(policy, any(line.startswith("-N DOCKER") for line in rules))


def rules_of_users(root: Runner) -> list[str]:
    """Rules in the chain that Docker leaves to the machine's owner."""
    if root.which("iptables") is None:
        return []
    rules = root.run(["iptables", "-t", "filter", "-S"], check=False).out.splitlines()
    return [line for line in rules if line.startswith("-A DOCKER-USER ") and line != "-A DOCKER-USER -j RETURN"]


def clean(root: Runner, forward: str) -> list[str]:
    """Remove Docker's rules, chains and bridges, and restore the policy of FORWARD. Return what was removed."""
    done = []
    if root.which("iptables") is not None:
        if removed := _remove_rules(root, "filter") + _remove_rules(root, "nat"):
            done.append(f"{removed} rules and chains of Docker removed")
        if forward:
            root.run(["iptables", "-P", "FORWARD", forward], check=False)
    if root.which("ip") is not None:
        links = root.run(["ip", "-o", "link", "show", "type", "bridge"], check=False).out
        for name in re.findall(r"^\d+: ([^:@]+)", links, re.MULTILINE):
            if _BRIDGE.fullmatch(name):
                root.run(["ip", "link", "delete", name], check=False)
                done.append(f"bridge {name} removed")
    return done


def _remove_rules(root: Runner, table: str) -> int:
    rules = root.run(["iptables", "-t", table, "-S"], check=False).out.splitlines()
    chains = [line.split()[1] for line in rules if line.startswith("-N DOCKER")]
    removed = len(chains)
    for rule in (line for line in rules if line.startswith("-A ") and not line.startswith("-A DOCKER")):
        words = shlex.split(rule)
        if any(word in chains or _BRIDGE.fullmatch(word) for word in words):
            root.run(["iptables", "-t", table, "-D", *words[1:]], check=False)
            removed += 1
    for verb in ("-F", "-X"):
        for chain in chains:
            root.run(["iptables", "-t", table, verb, chain], check=False)
    return removed
