"""Lint on the manifests of five published guides to KAI and vCluster: what is known to be wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.errors import SpecError
from lab.kai import line_of
from lab.lint import LintContext, lint_files

CASES = Path(__file__).parents[2] / "data" / "lint_cases"

# (line, rule) of errors and warnings, by KAI version
_VCLUSTER = (6, "vcluster-custom-resources")
_SILENT = [(13, "queue-missing"), (26, "queue-missing")]
_QUEUES = [
    (7, "queue-limit-omitted"),
    (23, "queue-limit-omitted"),
    (24, "queue-limit-omitted"),
    (27, "queue-limit-omitted"),
]
KNOWN: dict[tuple[str, str], list[tuple[int, str]]] = {
    ("000", "0.7.11"): [_VCLUSTER, *_SILENT],
    ("000", "0.9.8"): [_VCLUSTER, *_SILENT],
    ("000", "0.16.8"): [_VCLUSTER],
    ("001", "0.7.11"): [(6, "kind-driver-version"), (56, "gpu-request-without-limit")],
    ("001", "0.16.8"): [(6, "kind-driver-version"), (56, "gpu-request-without-limit")],
    ("002", "0.9.3"): [],
    ("003", "0.9.8"): [],
    ("003", "0.16.8"): [(4, "kai-class-key")],
    ("004", "0.9.8"): [*_QUEUES, (36, "queue-unknown")],
    ("004", "0.16.8"): [*_QUEUES],
}


@pytest.mark.parametrize(("text", "version"), KNOWN, ids=lambda value: value)
def test_the_guides(text: str, version: str) -> None:
    (file,) = CASES.glob(f"{text}_*.yaml")
    found = lint_files([file], LintContext(line_of(version)))
    assert [(one.line, one.rule) for one in found if one.severity != "note"] == KNOWN[text, version]
    for one in found:
        assert one.what
        assert one.next
        assert one.source


GUIDES = os.environ.get("KAILAB_GUIDES", "")
"""A folder with the guides themselves, prose and all, which others own: 000_*.txt to 004_*.txt."""

UNALTERED: dict[str, list[tuple[int, str]]] = {
    # three Pods; its Helm values are keys of the chart
    "000": [(92, "indentation-lost"), (114, "indentation-lost"), (138, "indentation-lost")],
    "001": [(197, "kind-driver-version"), (466, "whole-gpu-without-runtime-class"), (653, "gpu-request-without-limit")],
    # two Queues without indentation; a Service and a Deployment with some of it lost
    "003": [
        (66, "indentation-lost"),
        (85, "indentation-lost"),
        (126, "whole-gpu-without-runtime-class"),
        (224, "key-outside-spec"),
        (314, "not-yaml"),
    ],
    "004": [(33, "indentation-lost"), (51, "indentation-lost"), (72, "indentation-lost")],
}


@pytest.mark.skipif(not GUIDES, reason="KAILAB_GUIDES names no folder with the published guides")
@pytest.mark.parametrize("text", sorted(UNALTERED))
def test_the_guides_as_they_stand(text: str) -> None:
    (file,) = Path(GUIDES).glob(f"{text}_*.txt")
    found = lint_files([file], LintContext(line_of("0.16.8")))
    assert [(one.line, one.rule) for one in found] == UNALTERED[text]


@pytest.mark.skipif(not GUIDES, reason="KAILAB_GUIDES names no folder with the published guides")
def test_a_guide_of_shell_commands_has_no_manifest() -> None:
    (file,) = Path(GUIDES).glob("002_*.txt")
    with pytest.raises(SpecError, match="no manifest to lint"):
        lint_files([file], LintContext(line_of("0.16.8")))
