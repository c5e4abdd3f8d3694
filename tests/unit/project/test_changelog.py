"""The changelog: no entry twice, and fragments that become a section of a release."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.release.changelog import KINDS, ROOT, collected, fragments

LOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- old\n\n### Fixed\n\n- once\n\n## 0.1.0\n\n- first\n"


def test_no_entry_is_twice_in_the_changelog() -> None:
    entries = re.split(r"(?m)^(?=- |#)", (ROOT / "CHANGELOG.md").read_text())
    short = [re.sub(r"\s+", " ", one)[:60] for one in entries if one.startswith("- ")]
    assert len(short) > 50
    assert [one for one in set(short) if short.count(one) > 1] == []


def test_fragments_of_the_repository_are_valid() -> None:
    assert {kind for kind, _ in fragments(ROOT / "changes").values()} <= set(KINDS)


def test_section_has_what_was_unreleased_and_the_fragments() -> None:
    entries = {Path("b"): ("fixed", "- b"), Path("a"): ("added", "- a"), Path("c"): ("changed", "- c")}
    assert collected(LOG, entries, "1.2.3", "2026-01-02") == (
        "# Changelog\n\n## Unreleased\n\n## 1.2.3 (2026-01-02)\n\n### Added\n\n- old\n- a\n\n### Fixed\n\n- once\n- b"
        "\n\n### Changed\n\n- c\n\n## 0.1.0\n\n- first\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "why"), [("x.new.md", "- x", "KIND"), ("x.md", "- x", "KIND"), ("x.added.md", "x", "begins")]
)
def test_other_fragments_are_refused(tmp_path: Path, name: str, text: str, why: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=why):
        fragments(tmp_path)
