"""The JSON Schema of the lab file, generated from the models; ``lab.schema.json`` is the shipped copy."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from lab.config.models import LabSpec

SCHEMA_ID = "urn:kailab:lab-file"
SCHEMA_FILE = "lab.schema.json"
"""Name beside a lab file, whose first line names it for the YAML language server of editors."""
_TITLE = "kailab lab file"


class _WithoutFieldTitles(GenerateJsonSchema):
    """Omits titles that repeat the key."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the lab file."""
    body = LabSpec.model_json_schema(by_alias=True, schema_generator=_WithoutFieldTitles)
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": SCHEMA_ID, **body, "title": _TITLE}


def schema_text() -> str:
    """The text of ``lab/config/lab.schema.json``."""
    return json.dumps(schema(), indent=2, ensure_ascii=False, sort_keys=False) + "\n"
