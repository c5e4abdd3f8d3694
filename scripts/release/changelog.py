"""Collect the fragments in ``changes/`` into CHANGELOG.md: ``python -m scripts.release.changelog VERSION``.

A fragment is a file ``NAME.KIND.md`` with one entry or several, each beginning with ``- ``; KIND is one of KINDS.
Branches that add a file each do not conflict. What is under *Unreleased* goes into the same section.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("changed", "added", "fixed", "removed", "security")
UNRELEASED = "## Unreleased"


def fragments(folder: Path) -> dict[Path, tuple[str, str]]:
    """Return kind and text of each fragment. Raises ValueError for a name or a text that is not one."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        match = re.fullmatch(rf"[\w-]+\.({'|'.join(KINDS)})\.md", path.name)
        text = path.read_text(encoding="utf-8").strip()
        if match is None:
            raise ValueError(f"{path.name}: name it NAME.KIND.md, KIND of {', '.join(KINDS)}")
        if not text.startswith("- "):
            raise ValueError(f"{path.name}: an entry begins with '- '")
        found[path] = (match[1], text)
    return found


def collected(changelog: str, entries: Mapping[Path, tuple[str, str]], version: str, date: str) -> str:
    """Return the changelog with the entries, and with what was unreleased, in a section of the version."""
    before, _, rest = changelog.partition(f"{UNRELEASED}\n")
    body, mark, older = rest.partition("\n## ")
    for kind in KINDS:
        if new := [text for one, text in entries.values() if one == kind]:
            body = _with(body.rstrip("\n"), f"### {kind.capitalize()}", "\n".join(new))
    return f"{before}{UNRELEASED}\n\n## {version} ({date})\n\n{body.strip()}\n{mark}{older}"


def _with(body: str, heading: str, text: str) -> str:
    """The section with more entries at the end of a heading, which is added if it lacks."""
    if heading not in body:
        return f"{body}\n\n{heading}\n\n{text}"
    start, _, rest = body.partition(heading)
    own, mark, others = rest.partition("\n### ")
    return f"{start}{heading}{own.rstrip()}\n{text}\n{mark}{others}"


def main(argv: list[str]) -> int:
    """Write the section and delete the fragments; without a version, only check them."""
    entries = fragments(ROOT / "changes")
    if not argv:
        print(f"{len(entries)} fragments")
        return 0
    file = ROOT / "CHANGELOG.md"
    date = datetime.now(UTC).date().isoformat()
    file.write_text(collected(file.read_text(encoding="utf-8"), entries, argv[0], date), encoding="utf-8")
    for path in entries:
        path.unlink()
    print(f"CHANGELOG.md has {argv[0]} with {len(entries)} fragments")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
