"""Print a table of the effects of a tenant's faults on its neighbours, from the figures of the noisy neighbour suite.

With --lab NAME the suite runs first; without it the table shows the figures of an earlier run. Exit code 1: a neighbour
was affected, the suite failed, or there are no figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.session.lab import Lab

ROOT = Path(__file__).parents[3]

FOLDER = "noisy-neighbour"
ARTIFACTS = ROOT / "artifacts" / "e2e"
SUITE = "tests/e2e/test_noisy_neighbour.py"
SUITE_SECONDS = 4 * 3600.0

HEAD = (
    "fault",
    "tenant",
    "neighbour",
    "scheduled p50/p95 (s)",
    "running p50/p95 (s)",
    "pods watched",
    "changed",
    "late",
)
PHASES = ("before", "during", "after")

Json = Mapping[str, Any]


def results(folder: Path) -> list[dict[str, Any]]:
    """Return the figures of every fault in a folder, oldest first.

    Raises:
        LabError: a file has no figures.
    """
    found = []
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        try:
            data = json.loads(path.read_text())
            found.append({key: data[key] for key in (*_KEYS, "facts")})
        except (ValueError, KeyError, TypeError) as error:
            raise LabError(
                f"{path} has no figures of a fault: {error}", fix="remove it, or run the suite again"
            ) from error
    return found


_KEYS = ("fault", "description", "tenant", "mode", "kai", "bound", "problems", "watched", "figures", "findings")


def rows(result: Json) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one fault: one for each neighbour."""
    for name, phases in result["figures"].items():
        changed = {finding["pod"] for finding in result["findings"] if finding["neighbour"] == name}
        running = phases["during"]["running"]
        yield (
            result["fault"],
            f"{result['tenant']} ({' '.join(filter(None, (result['mode'], result['kai'])))})",
            name,
            _times(phases, "scheduled"),
            _times(phases, "running"),
            str(result["watched"][name]),
            str(len(changed)),
            f"{running['missed']} of {running['count']}",
        )


def _times(phases: Json, stage: str) -> str:
    """Median and 95th percentile of each phase: ``0.41/0.93 → 0.44/1.10 → 0.40/0.80``."""
    return " → ".join(
        f"{_seconds(phases[phase][stage]['p50'])}/{_seconds(phases[phase][stage]['p95'])}" for phase in PHASES
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def table(found: Iterable[Json]) -> str:
    """Return all faults as a Markdown table, aligned to be readable as plain text."""
    lines = [HEAD, *(row for result in found for row in rows(result))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    text = [_line([cell.ljust(width) for cell, width in zip(line, widths, strict=True)]) for line in lines]
    return "\n".join([text[0], _line(["-" * width for width in widths]), *text[1:]])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def summary(found: Sequence[Json]) -> str:
    """Return the table, the bounds, the lab's facts and all problems."""
    bounds = {(result["bound"]["factor"], result["bound"]["floor"]) for result in found}
    facts = found[0]["facts"]
    lines = [
        table(found),
        "",
        "before → during → after; p50 and p95 in seconds, from the request to create a small pod.",
    ]
    lines += [f"Bound: p50 during ≤ {factor:g} × p50 before + {floor:g} s." for factor, floor in sorted(bounds)]
    lines += ["Lab: " + ", ".join(f"{key} {facts[key]}" for key in ("lab", "kubernetes", "gpu_mode") if facts.get(key))]
    lines += [
        f"PROBLEM: {result['fault']} of {result['tenant']}: {one}" for result in found for one in result["problems"]
    ]
    return "\n".join(lines)


def run_suite(lab: Lab, artifacts: Path, *, long: bool, only: str) -> int:
    """Run the suite and return pytest's exit status. Its figures replace existing ones."""
    for path in (artifacts / FOLDER).glob("*.json"):
        path.unlink()
    argv = [sys.executable, "-m", "pytest", SUITE, "-p", "no:cacheprovider", "--lab", lab.spec.name]
    argv += ["--lab-require", "tenants", f"--lab-artifacts={artifacts}", f"--junitxml={artifacts / f'{FOLDER}.xml'}"]
    argv += [*(["--lab-long"] if long else []), *(["-k", only] if only else [])]

    def say(line: str) -> None:
        print(line, flush=True)

    return lab.runner.run(argv, cwd=ROOT, timeout=SUITE_SECONDS, check=False, on_line=say).code


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lab", metavar="NAME", help="run the suite on this lab first")
    parser.add_argument("--long", action="store_true", help="also run the faults that take minutes")
    parser.add_argument("--only", metavar="WORDS", default="", help="run only matching tests (pytest -k)")
    parser.add_argument("--artifacts", type=Path, default=ARTIFACTS, metavar="DIR", help="folder of the figures")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run the suite if a lab is named, print the table, and return the exit code."""
    options = arguments(argv)
    artifacts = options.artifacts.expanduser().absolute()
    code = run_suite(Lab.attach(options.lab), artifacts, long=options.long, only=options.only) if options.lab else 0
    found = results(artifacts / FOLDER)
    if not found:
        raise LabError(f"No figures in {artifacts / FOLDER}", fix="pass --lab NAME to run the suite")
    print(summary(found))
    return 1 if code or any(result["problems"] for result in found) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
