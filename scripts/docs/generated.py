"""Everything of the site that is generated: nothing of it is in the repository."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lab.cli.documents import DOCUMENTS, json_schema
from lab.config import schema_text
from scripts.docs.command_pages import command_pages
from scripts.docs.kai_pages import kai_pages
from scripts.docs.lab_file_page import lab_file_page
from scripts.docs.rule_pages import rule_pages
from scripts.docs.suite_page import suite_page
from scripts.release.changelog import UNRELEASED, collected, fragments

ROOT = Path(__file__).parents[2]

_TOP = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Page of the site → file at the top of the repository."""
_INTO_DOCS = re.compile(r"\]\(docs/")


def generated() -> dict[str, str]:
    """Generated files by path: pages, JSON Schemas, and pages from the top of the repository."""
    texts = {path: (ROOT / name).read_text(encoding="utf-8") for path, name in _TOP.items()}
    log = collected(texts["changelog.md"], fragments(ROOT / "changes"), "Next release", "not yet")
    texts["changelog.md"] = log.replace(f"{UNRELEASED}\n\n", "", 1)
    copies = {path: _INTO_DOCS.sub("](", text) for path, text in texts.items()}
    pages = rule_pages() | kai_pages() | command_pages() | lab_file_page() | suite_page()
    schemas = {f"reference/schemas/{'-'.join(name.split())}.json": json_schema(name) for name in DOCUMENTS}
    documents = {path: json.dumps(schema, indent=1) for path, schema in schemas.items()}
    return {**pages, **copies, **documents, "lab.schema.json": schema_text()}
