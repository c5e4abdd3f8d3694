"""The registry to which this release of kailab has published its own images: the probe and ready node images.

The release workflow writes ``published.json`` into the package (scripts/release/images.py); a checkout has none, and
builds what it needs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.supply.catalogue import OWN_REGISTRY
from lab.supply.registry import mirrored

FILE = Path(__file__).with_name("published.json")


@dataclass(frozen=True)
class Published:
    """Where a release's images are: ``registry`` with a path, such as ``ghcr.io/OWNER/kailab``; empty in a checkout."""

    registry: str = ""
    pins: dict[str, str] = field(default_factory=dict)
    """Digest by reference, as in the catalogue."""

    @property
    def mirrors(self) -> dict[str, str]:
        return {OWN_REGISTRY: self.registry} if self.registry else {}


@functools.cache
def published() -> Published:
    """What ``published.json`` says; nothing without the file."""
    return Published(**json.loads(FILE.read_text())) if FILE.exists() else Published()


def pulled_from(reference: str, mirrors: Mapping[str, str]) -> str:
    """The name by which nodes that are not the lab's pull one of kailab's images: a mirror's, or the release's."""
    return mirrored(reference, {**published().mirrors, **mirrors})
