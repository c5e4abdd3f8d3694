"""mkdocs hook: adds the generated files to the site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # mkdocs loads this file by its path

from mkdocs.structure.files import File, Files

from scripts.docs.generated import generated


def on_files(files: Files, config: Any) -> Files:
    """Add the generated files."""
    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    return files
