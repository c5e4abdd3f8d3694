"""Compares the JSON that commands print with docs/reference/json.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "json.md"

_OF_A_LAB = {
    **{one: one for one in ("status", "doctor", "gpus", "explain --all", "explain queue", "verify")},
    **{one: one for one in ("tenant list", "tenant status", "watch status")},
    "explain eviction": "explain evictions",
    "can-run": f"can-run {ROOT / 'manifests' / 'workloads' / 'gpu.yaml'}",
    "report": "report --out keys.html",
}
_WITHOUT_A_LAB = {
    **{one: one for one in ("gpu models", "kai versions", "lint --rules", "explain --rules", "doctor --symptoms")},
    "plan": "plan --profile minimal",
    "lint": f"lint {ROOT / 'manifests' / 'workloads' / 'gpu.yaml'}",
    "--explain RULE": "lint --explain queue-missing",
}


def documented_keys() -> dict[str, tuple[set[str], bool]]:
    """Command → keys of its document on the page, and whether the page names only some of them."""
    found = {}
    for row in re.finditer(r"^\| (`.*?`(?:, `.*?`)*) \| (.*) \|$", PAGE.read_text(), re.MULTILINE):
        text = row[2]
        while "(" in text:
            text = re.sub(r"\([^()]*\)", "", text)
        for name in re.findall(r"`(.*?)`", row[1]):
            found[name] = (set(re.findall(r"`(\w+)(?:\[\])?`", text)), "…" in text)
    return found


def different_keys(run: Callable[[Sequence[str]], Any], lab: str) -> dict[str, dict[str, set[str]]]:
    """Command → keys that only its document or only the page has; ``run`` returns the document of a command."""
    wanted, differences = documented_keys(), {}
    commands = {name: (*words.split(), "--name", lab) for name, words in _OF_A_LAB.items()}
    commands |= {name: tuple(words.split()) for name, words in _WITHOUT_A_LAB.items()}
    for name, words in commands.items():
        document = run(words)
        keys = set(document[0] if isinstance(document, list) else document) - {"schemaVersion"}
        named, only_some = wanted[name]
        if named - keys or (keys - named and not only_some):
            differences[name] = {"not there": named - keys, "not on the page": keys - named}
    return differences
