"""A vCluster chart whose schema covers the base values and the values of these tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.builders import chart_file
from tests.support.tenant_validation import DEFAULTS, SCHEMA


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    files = {
        "Chart.yaml": "name: vcluster\nversion: 0.36.1\n",
        "values.schema.json": json.dumps(SCHEMA),
        "values.yaml": yaml.safe_dump(DEFAULTS),
    }
    return chart_file(tmp_path / "vcluster.tgz", "vcluster", files)
