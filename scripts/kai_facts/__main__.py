"""Write ``lab/kai/derived`` from KAI's source trees: ``python -m scripts.kai_facts DIR``.

DIR has one folder per release, such as v0.16.8 (``git archive`` of the tag). All releases that the data names must be
there, and those of 0.7 and newer that are new. The data are names, defaults and relations; no text of KAI is copied.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.kai import facts
from lab.kai.model import release
from scripts.kai_facts.tree import Facts, facts_of

_FIRST_MINOR = 7


def trees(folder: Path) -> dict[str, Path]:
    """The releases below a folder, oldest first, by version; candidates and versions before 0.7 are left out."""
    found = {path.name[1:]: path for path in folder.iterdir() if re.fullmatch(r"v0\.\d+\.\d+", path.name)}
    return {version: found[version] for version in sorted(found, key=release) if release(version)[1] >= _FIRST_MINOR}


def grouped(derived: Mapping[str, Facts]) -> dict[str, facts.Topic]:
    """Facts by topic and name: each value once, with the ranges of the releases that have it."""
    order = tuple(derived)
    found: dict[str, facts.Topic] = {}
    for topic in derived[order[-1]]:
        names = sorted({name for one in derived.values() for name in one[topic]})
        found[topic] = {name: _ranges(name, topic, derived, order) for name in names}
    return found


def _ranges(name: str, topic: str, derived: Mapping[str, Facts], order: tuple[str, ...]) -> list[tuple[str, object]]:
    values: list[tuple[list[str], object]] = []
    for version in order:
        if name not in derived[version][topic]:
            continue
        value = derived[version][topic][name]
        group = next((having for having, known in values if known == value and type(known) is type(value)), None)
        if group is None:
            values.append(([version], value))
        else:
            group.append(version)
    return [(facts.as_ranges(having, order), value) for having, value in values]


def main() -> None:
    """Derive the facts of all trees in the folder that the command line names, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    found = trees(parser.parse_args().folder)
    missing = sorted(set(facts.releases()) - set(found)) if (facts.FOLDER / "releases.json").exists() else []
    if missing:
        sys.exit(f"the folder lacks trees of releases that the data has: {', '.join(missing)}; extract them too")
    derived = {version: facts_of(path) for version, path in found.items()}
    facts.FOLDER.mkdir(exist_ok=True)
    for topic, names in grouped(derived).items():
        (facts.FOLDER / f"{topic}.json").write_text(facts.as_text(names))
    marks = {version: facts.fingerprint(one) for version, one in derived.items()}
    (facts.FOLDER / "releases.json").write_text(facts.as_text(marks))
    print(f"{len(derived)} releases, {sum(path.stat().st_size for path in facts.FOLDER.iterdir())} bytes")


if __name__ == "__main__":
    main()
