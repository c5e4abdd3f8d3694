"""Prints one table of what a CI run has proven and what not, from JUnit files.

    python -m scripts.proven [--require kai,gpus] tests/e2e=artifacts/junit.xml …

With ``--require`` it fails if a test was skipped for want of one of these, or a suite of the folder did not run.
"""

from __future__ import annotations

import argparse
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

LACKS = {
    "long": r"takes minutes|KAILAB_LONG|--lab-long",
    "own-kai tenants": r"own-kai",
    "a lab without KAI": r"lab \S+ has KAI",
    "another KAI": r"of line|of two lines|needs KAI [<>=!~]",
    "simulated GPUs": r"GPUs are \w+",
    "kai": r"\bKAI\b",
    "tenants": r"tenant|neighbours",
    "nvidia": r"real GPUs|NVIDIA",
    "gpus": r"\bGPUs?\b",
    "engine": r"container engine",
    "browser": r"browser|[Cc]hromium",
}
"""What a skipped test lacked, by its reason; the first match counts. ``long`` is KAILAB_LONG=1 or ``--lab-long``."""

MACHINE = "this machine"
"""What it lacked if nothing of LACKS matches."""


@dataclass
class Suite:
    """The tests of one file."""

    name: str
    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)

    @property
    def proof(self) -> str:
        """``proven``, ``partly``, ``NOT PROVEN`` or ``FAILED``."""
        if self.failed:
            return "FAILED"
        if not self.passed:
            return "NOT PROVEN"
        return "partly" if self.skipped else "proven"


def lacked(reason: str) -> str:
    """What a skipped test lacked."""
    return next((need for need, pattern in LACKS.items() if re.search(pattern, reason)), MACHINE)


def read(folder: str, junit: Path) -> tuple[list[Suite], str]:
    """The suites of a folder, also those that did not run, and the facts of the lab.

    A folder without a JUnit file, such as one of a run that stopped before it, has only suites that did not run.
    """
    suites = {path.stem: Suite(f"{folder}/{path.stem}") for path in sorted(Path(folder).glob("test_*.py"))}
    if not junit.is_file():
        return list(suites.values()), "did not run"
    root = ET.parse(junit).getroot()  # noqa: S314 - written by this run
    for case in root.iter("testcase"):
        words = [word for word in case.get("classname", "").split(".") if word.startswith("test_")]
        suite = suites.setdefault(words[0] if words else "?", Suite(f"{folder}/{words[0] if words else '?'}"))
        if case.find("failure") is not None or case.find("error") is not None:
            suite.failed += 1
        elif (skip := case.find("skipped")) is not None:
            suite.skipped[lacked(skip.get("message", ""))] += 1
            suite.reasons.append(skip.get("message", ""))
        else:
            suite.passed += 1
    facts = {one.get("name", ""): one.get("value", "") for one in root.iter("property")}
    if "kailab.lab" not in facts:
        return list(suites.values()), ""
    kai = facts.get("kailab.kai_version")
    return list(suites.values()), (
        f"lab {facts['kailab.lab']}: GPUs {facts.get('kailab.gpu_mode')}, "
        + (f"KAI {kai}" if kai else f"NO KAI ({facts.get('kailab.no_kai')})")
    )


def table(suites: Sequence[Suite]) -> list[str]:
    """One line for each suite."""
    width = max(len(suite.name) for suite in suites)
    lines = [f"{'suite':<{width}}  {'':<10}  passed  skipped, for want of"]
    for suite in suites:
        wants = ", ".join(f"{number} {need}" for need, number in suite.skipped.items())
        if not (suite.passed or suite.failed or suite.skipped):
            wants = "did not run"
        failed = f"{suite.failed} failed; " if suite.failed else ""
        lines.append(f"{suite.name:<{width}}  {suite.proof:<10}  {suite.passed:>6}  {failed}{wants}".rstrip())
    return lines


def refused(suites: Sequence[Suite], required: Sequence[str]) -> list[str]:
    """Why a run that has these things does not prove what it should."""
    lines = []
    for suite in suites:
        if not (suite.passed or suite.failed or suite.skipped):
            lines.append(f"{suite.name} did not run")
        lines += [
            f"{suite.name} was skipped for want of {lacked(reason)}: {reason}"
            for reason in dict.fromkeys(suite.reasons)
            if lacked(reason) in required
        ]
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a required proof is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--require", default="", metavar="LIST", help=f"of {', '.join(LACKS)}")
    parser.add_argument("junit", nargs="+", metavar="FOLDER=FILE", help="folder of suites, and their JUnit file")
    options = parser.parse_args(argv)
    required = [word for word in options.require.split(",") if word]
    if unknown := sorted(set(required) - set(LACKS)):
        parser.error(f"--require: unknown {', '.join(unknown)} (known: {', '.join(LACKS)})")
    suites: list[Suite] = []
    for pair in options.junit:
        folder, _, file = pair.partition("=")
        found, facts = read(folder, Path(file))
        suites += found
        if facts:
            print(f"{folder}: {facts}")
    print(*table(suites), sep="\n")
    counts = Counter(suite.proof for suite in suites)
    passed, skipped = (sum(suite.passed for suite in suites), sum(suite.skipped.total() for suite in suites))
    print(f"{passed} tests passed, {skipped} skipped; suites: {', '.join(f'{n} {p}' for p, n in counts.items())}")
    problems = refused(suites, required) if required else []
    for line in problems:
        print(f"should have run: {line}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
