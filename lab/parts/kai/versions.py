"""KAI's version lines: what differs between them, read from lines.toml."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import SpecError


@dataclass(frozen=True)
class Line:
    """One KAI version; the fields are explained at the top of lines.toml."""

    version: str
    registry: str
    base: str
    hooks: str
    stale_hook_job: bool
    config_template: str
    scheduler_app: str
    deployments: Mapping[str, str]
    images: tuple[str, ...]
    hook_images: tuple[str, ...]
    reservation_class_key: str
    reservation_class: str
    workload_class_key: str
    workload_class_clearable: bool
    default_queues: tuple[str, ...]
    queue_levels: int
    unknown_queue_event: bool
    webhooks: tuple[str, ...]
    webhook_only_kai_pods: bool
    fake_gpu_detection: bool
    reservation_name: str
    kubernetes_max: str

    @property
    def tag(self) -> str:
        """Tag of the images and version of the chart: the git tag, with its v."""
        return f"v{self.version}"

    @property
    def chart(self) -> str:
        """Where the chart is published."""
        return f"oci://{self.registry}/kai-scheduler"

    @property
    def has_operator(self) -> bool:
        """Whether an operator deploys components by the Config kai-config."""
        return "kai-operator" in self.deployments

    @property
    def has_shards(self) -> bool:
        """Whether the scheduler runs by a SchedulingShard (0.10 and newer)."""
        return self.scheduler_app == "kai-scheduler-default"


@functools.cache
def lines() -> Mapping[str, Line]:
    """All known lines by version, oldest first."""
    data = tomllib.loads(Path(__file__).with_name("lines.toml").read_text())
    rows = [Line(**{key: _frozen(value) for key, value in row.items()}) for row in data["line"]]
    return {line.version: line for line in rows}


def line_of(version: str) -> Line:
    """The line of a KAI version.

    Raises:
        SpecError: the lab does not know that version.
    """
    known = lines()
    if version in known:
        return known[version]
    same = [other for other in known if other.rsplit(".", 1)[0] == version.rsplit(".", 1)[0]]
    hint = f"; of that line it knows {', '.join(same)}" if same else ""
    raise SpecError(
        f"kai.version: the lab does not know KAI {version}{hint}",
        fix=f"take one of: {', '.join(known)}",
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
