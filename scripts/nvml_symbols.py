"""Writes kind/nvml/nvml_unsupported.c: a body for every NVML function that is not simulated.

Go programs crash when a function that they resolve is missing, and pynvml raises FunctionNotFound, so each known
name must exist. Only names are used, from go-nvml's nvml.h and the installed pynvml.

    python scripts/nvml_symbols.py            write the file
    python scripts/nvml_symbols.py --check    change nothing; exit 1 when the file is out of date

nvml.h comes from the Go module cache, into which
``go mod download github.com/NVIDIA/go-nvml@v0.13.0-1`` puts it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "kind" / "nvml"
TARGET = SOURCES / "nvml_unsupported.c"
WIDTH = 110

HEAD = """\
/*
 * NVML functions that are not simulated: each answers NVML_ERROR_NOT_SUPPORTED.
 * Written by scripts/nvml_symbols.py; do not edit. Arguments are left out: the C calling conventions of
 * x86-64 and arm64 let a function ignore them.
 */
#include "nvml_sim.h"

#define N(function) nvmlReturn_t function(void) { return NVML_ERROR_NOT_SUPPORTED; }

"""


def header_path() -> Path:
    """The newest go-nvml header in the Go module cache. Exits with a hint when it is missing."""
    cache = Path(os.environ.get("GOMODCACHE") or Path(os.environ.get("GOPATH") or Path.home() / "go") / "pkg" / "mod")
    found = sorted(cache.glob("github.com/!n!v!i!d!i!a/go-nvml@*/pkg/nvml/nvml.h"))
    if not found:
        sys.exit(f"no nvml.h under {cache}; run: go mod download github.com/NVIDIA/go-nvml@v0.13.0-1")
    return found[-1]


def names_of_header(text: str) -> set[str]:
    """Functions that nvml.h declares, and the unversioned names that it maps to versioned ones."""
    declared = set(re.findall(r"\bDECLDIR\b[\s\w]*?\*?\s*\b(nvml\w+)\s*\(", text))
    aliases = {
        old for old, new in re.findall(r"^\s*#define\s+(nvml\w+)\s+(nvml\w+)\s*$", text, re.M) if new in declared
    }
    return declared | aliases


def names_of_pynvml(text: str) -> set[str]:
    """Functions that pynvml resolves."""
    return set(re.findall(r'_nvmlGetFunctionPointer\("(nvml\w+)"\)', text))


def simulated(sources: Path) -> set[str]:
    """Functions that our files define, directly or through a macro with the name as its first argument."""
    names: set[str] = set()
    for path in sources.glob("nvml_*.c"):
        if path.name != TARGET.name:
            text = path.read_text()
            names |= set(re.findall(r"^(?:nvmlReturn_t|const char \*)\s*(nvml\w+)\(", text, re.M))
            names |= set(re.findall(r"^[A-Z_]+\((nvml\w+)[,)]", text, re.M))
    return names


def render(names: set[str]) -> str:
    """The text of the C file, with the names in order."""
    lines = [""]
    for name in sorted(names):
        entry = f"N({name})"
        if lines[-1] and len(lines[-1]) + 1 + len(entry) > WIDTH:
            lines.append("")
        lines[-1] += f" {entry}" if lines[-1] else entry
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", type=Path, help="nvml.h to read (default: go-nvml's in the Go module cache)")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when the file is out of date")
    options = parser.parse_args()
    names = names_of_header((options.header or header_path()).read_text())
    spec = find_spec("pynvml")
    if spec is not None and spec.origin is not None:
        names |= names_of_pynvml(Path(spec.origin).read_text())
    ours = simulated(SOURCES)
    text = render(names - ours)
    if options.check:
        current = TARGET.read_text() if TARGET.exists() else ""
        missing = {name for name in names if f"N({name})" not in current} - ours
        print(
            f"{len(names | ours)} functions: {len(ours)} answer, {len(names - ours)} are not supported, "
            f"missing: {', '.join(sorted(missing)) or 'none'}"
        )
        return 0 if current == text else 1
    TARGET.write_text(text)
    print(f"{TARGET}: {len(names - ours)} functions not supported, {len(ours)} simulated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
