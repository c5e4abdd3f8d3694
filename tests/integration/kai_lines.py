"""Two version lines of KAI in the bundles of the cache, and labs with one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from lab.config import LabSpec, load_profile
from lab.kai import line_of
from lab.kai.names import KAI_CHART
from lab.kube import Cluster
from lab.steps.kai.values import kai_images
from lab.supply.bundle import installed
from tests.integration.conftest import Cli


def minimal(version: str) -> LabSpec:
    """Return a copy of the profile minimal with a KAI version."""
    spec = load_profile("minimal")
    return spec.model_copy(update={"kai": spec.kai.model_copy(update={"version": version})})


def two_lines() -> tuple[str, str]:
    """Return KAI's two newest lines in local bundles for the profile's Kubernetes, older first; skips without two."""
    charts = {
        entry.version.removeprefix("v")
        for bundle in installed()
        for entry in bundle.entries
        if (entry.kind, entry.name) == ("chart", KAI_CHART)
    }
    newest = {line_of(version).name: version for version in sorted(charts, key=Version)}
    if len(newest) < 2:
        found = ", ".join(sorted(charts, key=Version)) or "none"
        pytest.skip(f"needs KAI of two lines in the bundles of the cache, there is {found}")
    older, newer = list(newest.values())[-2:]
    return older, newer


def choice(version: str, *others: str) -> tuple[str, ...]:
    """Options for this KAI, with the images of all in the nodes: an upgrade then needs no other node image."""
    images = sorted({image for one in (version, *others) for image in kai_images(minimal(one))})
    return ("--set", f"kai.version={version}", "--set", "scheduler=kai", "--set", f"images=[{', '.join(images)}]")


def bring_up(cli: Cli, name: str, version: str, *others: str, settings: tuple[str, ...] = ()) -> Cluster:
    """A lab with this KAI, whose nodes also have the images of the others; ``settings`` as for ``--set``."""
    options = [word for setting in settings for word in ("--set", setting)]
    named = ("--profile", "minimal", "--name", name, "--yes", "--json")
    up = cli("up", *named, *choice(version, *others), *options).json()
    assert up["facts"]["scheduler"] == "kai"
    return Cluster(Path(up["kubeconfig"]))
