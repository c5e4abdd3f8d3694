"""What validation reads of vCluster's chart: of a chart at hand, or of the pinned one as shipped with kailab."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.serialization import yaml_documents
from lab.steps.helm_release import read_chart

SHIPPED = Path(__file__).with_name("chart.json")
"""The chart of the default vCluster version, without descriptions; ``scripts/vcluster_chart.py`` writes it."""


@dataclass(frozen=True)
class VClusterChart:
    """The version, the JSON Schema of the values, and the default values of a vCluster chart."""

    version: str
    schema: dict[str, Any]
    defaults: dict[str, Any]

    def as_text(self) -> str:
        """JSON without descriptions, one line for each type of the schema."""
        types = {name: json.dumps(_bare(schema)) for name, schema in sorted(self.schema["$defs"].items())}
        rest = {key: value for key, value in self.schema.items() if key not in ("$defs", "$id")}
        lines = ",\n".join(f"{json.dumps(name)}: {text}" for name, text in types.items())
        head = json.dumps({**asdict(self), "schema": {**_bare(rest), "$defs": {}}})
        return head.replace('"$defs": {}', f'"$defs": {{\n{lines}\n}}') + "\n"


@functools.lru_cache(maxsize=4)
def read_vcluster_chart(path: Path) -> VClusterChart:
    """Read a chart's .tgz. Raises LabError: it is not a vCluster chart."""
    import yaml

    texts = read_chart(path, lambda inside: inside in ("Chart.yaml", "values.schema.json", "values.yaml"))
    try:
        return VClusterChart(
            version=str(yaml_documents(texts["Chart.yaml"])[0]["version"]),
            schema=json.loads(texts["values.schema.json"]),
            defaults=yaml_documents(texts["values.yaml"])[0],
        )
    except (LookupError, ValueError, TypeError, yaml.YAMLError) as error:
        raise LabError(
            f"{path} is not a vCluster chart: {error}", fix="remove that file and run the command again"
        ) from error


@functools.cache
def shipped_chart() -> VClusterChart:
    """The chart of the default vCluster version, which needs nothing of this machine."""
    return VClusterChart(**json.loads(SHIPPED.read_text()))


def _bare(schema: Any) -> Any:
    """A schema without descriptions; a property of that name stays, since its value is a schema."""
    if isinstance(schema, dict):
        return {
            key: _bare(value) for key, value in schema.items() if not (key == "description" and isinstance(value, str))
        }
    return [_bare(value) for value in schema] if isinstance(schema, list) else schema
