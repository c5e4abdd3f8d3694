"""The templates of the HTML pages, with the filters and styles that they share."""

from __future__ import annotations

import functools
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.compare.text import moment, state, where
from lab.gpu.map.legend import MANY, SIGNS, STRIP, letter, total
from lab.gpu.map.model import short
from lab.gpu.map.text import node_words
from lab.report.gpu_picture import bar, pod_line, tooltip, usage
from lab.report.timing_chart import seconds

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent


def render(template: str, *, styles: tuple[str, ...] = ("page.css",), **values: Any) -> str:
    """Render a template of this folder with the time and the styles: no page needs the network."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return _environment().get_template(template).render(made=made, style="".join(map(read, styles)), **values)


def read(name: str) -> str:
    """A file of this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(SIGNS=SIGNS, STRIP=STRIP, MANY=MANY)
    filters = (bar, letter, moment, node_words, pod_line, seconds, short, state, tooltip, total, usage, where)
    environment.filters.update({function.__name__: function for function in filters})
    return environment
