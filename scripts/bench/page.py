"""The page of a run: the figures, and where the time of ``kailab up`` goes, step by step."""

from __future__ import annotations

from html import escape
from typing import Any

from lab.report.templates import read

_STYLE = """table { border-collapse: collapse } td, th { padding: .2rem .8rem; text-align: right }
td:first-child, th:first-child { text-align: left } i { display: block; height: .8rem; background: #9bb } i.critical {
background: #c63 } .track { width: 40rem; max-width: 50vw }"""


def page(document: dict[str, Any], rows: list[str]) -> str:
    """The page as HTML, without anything from the network; ``rows`` is the table of figures as text."""
    machine = ", ".join(f"{key} {value}" for key, value in {**document["machine"], **document["lab"]}.items() if value)
    lines = [*document["notes"], *(f"PROBLEM: {line}" for line in document["problems"])]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>kailab benchmark</title><style>{read('page.css')}{_STYLE}</style><main><h1>kailab benchmark</h1>"
        f"<p>{escape(document['time'])}, kailab {escape(document['kailab'])}; {escape(machine)}</p>"
        f"<h2>Figures</h2><pre>{escape(chr(10).join(rows))}</pre>"
        + "".join(f"<p>{escape(line)}</p>" for line in lines)
        + _steps(document["steps"])
        + "</main></html>\n"
    )


def _steps(steps: list[dict[str, Any]]) -> str:
    """A bar for each step of the last pair; those that the end waited for are marked."""
    if not steps:
        return ""
    end = max(step["began"] + step["seconds"] for step in steps) or 1.0
    rows = []
    for step in steps:
        left, width = (100 * step[key] / end for key in ("began", "seconds"))
        state = "critical" if step["critical"] else ""
        bar = f'<i class="{state}" style="margin-left:{left:.2f}%;width:{width:.2f}%"></i>'
        cpu = "" if step["cpu"] is None else f"{step['cpu']:.1f}"
        cells = (escape(step["step"]), f"{step['seconds']:.1f}", cpu, step["bound"])
        rows.append("".join(f"<td>{cell}</td>" for cell in cells) + f'<td class="track">{bar}</td>')
    head = "<tr><th>step<th>s<th>CPU s of all nodes<th>bound by<th>the critical path is marked</tr>"
    return f"<h2>kailab up, last pair</h2><table>{head}{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
