"""The flames table: what neighbours of a burning tenant had to bear, by the figures of that suite.

With --lab NAME the suite runs first; without it the figures of an earlier run are read. Exit code 1: a neighbour
noticed something, the suite failed, or there are no figures.
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

FOLDER = "flames"
ARTIFACTS = ROOT / "artifacts" / "e2e"
SUITE = "tests/e2e/test_noisy_neighbour.py"
SUITE_SECONDS = 4 * 3600.0

HEAD = (
    "fire",
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
    """The figures of every fire in a folder, in the order in which the fires were seen.

    Raises:
        LabError: a file is something else.
    """
    found = []
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        try:
            data = json.loads(path.read_text())
            found.append({key: data[key] for key in (*_KEYS, "facts")})
        except (ValueError, KeyError, TypeError) as error:
            raise LabError(
                f"{path} has no figures of a fire: {error}", fix="remove it, or run the suite again"
            ) from error
    return found


_KEYS = ("fire", "what", "tenant", "mode", "kai", "bound", "wrong", "watched", "figures", "findings")


def rows(result: Json) -> Iterator[tuple[str, ...]]:
    """The rows of one fire: one for each neighbour."""
    for name, phases in result["figures"].items():
        changed = {finding["pod"] for finding in result["findings"] if finding["neighbour"] == name}
        late = phases["during"]["running"]
        yield (
            result["fire"],
            f"{result['tenant']} ({' '.join(filter(None, (result['mode'], result['kai'])))})",
            name,
            _times(phases, "scheduled"),
            _times(phases, "running"),
            str(result["watched"][name]),
            str(len(changed)),
            f"{late['missed']} of {late['count']}",
        )


def _times(phases: Json, stage: str) -> str:
    """Median and 95th percentile of each phase: ``0.41/0.93 → 0.44/1.10 → 0.40/0.80``."""
    return " → ".join(
        f"{_seconds(phases[phase][stage]['p50'])}/{_seconds(phases[phase][stage]['p95'])}" for phase in PHASES
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def table(found: Iterable[Json]) -> str:
    """All fires as a table in Markdown, which reads well as plain text too."""
    lines = [HEAD, *(row for result in found for row in rows(result))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    text = [_line([cell.ljust(width) for cell, width in zip(line, widths, strict=True)]) for line in lines]
    return "\n".join([text[0], _line(["-" * width for width in widths]), *text[1:]])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def told(found: Sequence[Json]) -> str:
    """The table, in which lab it was measured, and all that went wrong."""
    bounds = {(result["bound"]["factor"], result["bound"]["floor"]) for result in found}
    facts = found[0]["facts"]
    lines = [
        table(found),
        "",
        "before → during → after; p50 and p95 in seconds, from the request to create a small pod.",
    ]
    lines += [f"Bound: p50 during ≤ {factor:g} × p50 before + {floor:g} s." for factor, floor in sorted(bounds)]
    lines += ["Lab: " + ", ".join(f"{key} {facts[key]}" for key in ("lab", "kubernetes", "gpu_mode") if facts.get(key))]
    lines += [f"NOTICED: {result['fire']} of {result['tenant']}: {one}" for result in found for one in result["wrong"]]
    return "\n".join(lines)


def run_suite(lab: Lab, artifacts: Path, *, long: bool, only: str) -> int:
    """Run the suite; returns pytest's exit status. Its figures replace those that are there."""
    for path in (artifacts / FOLDER).glob("*.json"):
        path.unlink()
    argv = [sys.executable, "-m", "pytest", SUITE, "-p", "no:cacheprovider", "--lab", lab.spec.name]
    argv += ["--lab-require", "tenants", f"--lab-artifacts={artifacts}", f"--junitxml={artifacts / 'flames.xml'}"]
    argv += [*(["--lab-long"] if long else []), *(["-k", only] if only else [])]

    def say(line: str) -> None:
        print(line, flush=True)

    return lab.runner.run(argv, cwd=ROOT, timeout=SUITE_SECONDS, check=False, on_line=say).code


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lab", metavar="NAME", help="run the suite on this lab first")
    parser.add_argument("--long", action="store_true", help="also the fires that take minutes")
    parser.add_argument("--only", metavar="WORDS", default="", help="only these tests, as pytest's -k has them")
    parser.add_argument("--artifacts", type=Path, default=ARTIFACTS, metavar="DIR", help="where the figures are")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run the suite if a lab is named, and print the table; returns the exit code."""
    asked = arguments(argv)
    artifacts = asked.artifacts.expanduser().absolute()
    code = run_suite(Lab.attach(asked.lab), artifacts, long=asked.long, only=asked.only) if asked.lab else 0
    found = results(artifacts / FOLDER)
    if not found:
        raise LabError(f"there are no figures in {artifacts / FOLDER}", fix="give --lab NAME to run the suite")
    print(told(found))
    return 1 if code or any(result["wrong"] for result in found) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
