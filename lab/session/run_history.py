"""Records of earlier runs, the source of the estimates of ``kailab plan``."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lab.engine.run import RunRecord
from lab.serialization import to_json

_KEPT = 20
"""Records of each lab."""
_NEWEST = 60
"""Records, of all labs, that estimates come from."""


def save_run(folder: Path, record: RunRecord, facts: dict[str, str]) -> Path | None:
    """Write a run's record and return its path, or None if the disk is full: that must not fail a lab that is up."""
    path = folder / f"{time.strftime('%Y%m%dT%H%M%S')}-{record.verb}.json"
    data = {
        "verb": record.verb,
        "ok": record.ok,
        "seconds": round(record.seconds, 2),
        "facts": facts,
        "steps": [{**to_json(step), "detail": step.detail, "began": round(step.began, 2)} for step in record.steps],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=1) + "\n")
        for old in sorted(folder.glob("*.json"))[:-_KEPT]:
            old.unlink()
    except OSError:
        return None
    return path


def step_seconds(root: Path) -> dict[str, float]:
    """Median seconds of each step that changed something, over the newest runs of all labs."""
    seen: dict[str, list[float]] = {}
    for record in _records(sorted(root.glob("*/*.json"), key=lambda path: path.name)[-_NEWEST:]):
        for step in record["steps"]:
            if step.get("outcome") == "changed":
                seen.setdefault(step["step"], []).append(float(step["seconds"]))
    return {step: statistics.median(values) for step, values in seen.items()}


def last_record(folder: Path) -> Mapping[str, Any] | None:
    """The newest record of ``kailab up`` that changed something, else the newest one; None without records."""
    records = list(_records(sorted(folder.glob("*-up.json"), reverse=True)))
    did = (record for record in records if any(step.get("outcome") == "changed" for step in record["steps"]))
    return next(did, records[0] if records else None)


def _records(paths: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    """The readable records among some files."""
    for path in paths:
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and isinstance(record.get("steps"), list):
            yield record
